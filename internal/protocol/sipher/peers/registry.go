// Package peers is what we know of other Sipher servers, and how we deal with them.
//
// Registry: a server is its canonical URL and the two keys that it showed first. A server that shows
// other keys later is refused and recorded: a new key and an impostor look the same, and only an
// operator can tell them apart.
//
// Discovery: we ask an unknown server for its keys and register with it, and serve the same at
// /discover, or no server would accept our deliveries. Everybody may ask there, so everything that
// callers can make grow has a bound: see callback.go and directory.go.
//
// Threats: a failed request gives the server a reason. A policy for each reason says whether the
// server may be checked directly and whether a proxy may be asked: a name that does not resolve may
// be censored just here, so a proxy helps; a failed TLS handshake may be a man in the middle, who
// must not get a proxy to use. Operators can change the policies.
//
// Health checks: a failure schedules one check, five minutes ahead. Each failed check schedules the
// next, ten minutes later than the last wait; the fifth is the last. A check's id is made of server
// and number, so many failures at once schedule one check.
//
// Relay: if the policy allows it, one other server is asked to pass a delivery on. It sees the
// target, not the content. Only the target's signature is proof of a delivery.
package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

// Server is the record of one server.
type Server struct {
	URL           string    `json:"url"`
	PublicKey     string    `json:"publicKey"`           // Ed25519, base64
	EncryptionKey string    `json:"encryptionPublicKey"` // X25519, base64
	LastSeen      time.Time `json:"lastSeen"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	IsHealthy     bool      `json:"isHealthy"`
	Attempts      int       `json:"healthCheckAttempts"`
	// Exhausted: the last check has failed, and none is scheduled.
	Exhausted bool   `json:"exhausted,omitempty"`
	Reason    Reason `json:"unhealthyReason,omitempty"`

	// Stranger: the server registered itself, and we never sent anything to it. Its record
	// expires Forget after it was last seen, and there are MaxStrangers at most, so that
	// strangers cannot fill the registry. The keys of all other servers stay pinned.
	Stranger bool `json:"stranger,omitempty"`

	// NextTryAt is when a server that hangs may be tried next (see ReserveTry); else zero.
	NextTryAt time.Time `json:"turnAt,omitzero"`

	// Unannounced: we discovered the server, or pinned its keys, and do not know whether it has
	// registered us, which explains why it refuses deliveries.
	Unannounced bool `json:"unannounced,omitempty"`
}

// Forget is how long a stranger's record is kept after the server was last seen.
const Forget = 90 * 24 * time.Hour

// KeyChange records that a server showed other keys than the pinned ones.
type KeyChange struct {
	URL string `json:"url"`
	// PublicKey and EncryptionKey are what it showed last.
	PublicKey     string `json:"publicKey"`
	EncryptionKey string `json:"encryptionPublicKey"`
	// Via says where: Discovered or Registered.
	Via   string    `json:"via"`
	First time.Time `json:"firstSeen"`
	Last  time.Time `json:"lastSeen"`
	Count int       `json:"count"`
}

// The ways a server comes to show its keys.
const (
	Discovered = "discovery"    // we asked it
	Registered = "registration" // it registered itself, and confirmed that
)

// Block is an operator's refusal to deal with a server.
type Block struct {
	ServerURL string    `json:"serverUrl"`
	Reason    string    `json:"reason"`
	CreatedAt time.Time `json:"createdAt"`
}

// Errors of the registry.
var (
	// ErrUnknown: there is no record of that server.
	ErrUnknown = errors.New("server is not registered")
	// ErrHealthy: the server is healthy, so there is no check to count.
	ErrHealthy = errors.New("server is healthy")
	// ErrKeyChanged: the server showed other keys than the pinned ones.
	ErrKeyChanged = errors.New("server shows another key than it is registered with")
)

// Store is what the registry needs of its storage. Every change of a record is atomic. A change of a
// server without a record returns ErrUnknown.
type Store interface {
	// Server returns a record, or ErrUnknown.
	Server(ctx context.Context, url string) (Server, error)
	// Servers returns all records, in no order.
	Servers(ctx context.Context) ([]Server, error)
	// Insert adds a record. If there is one, Insert returns it and changes nothing.
	Insert(ctx context.Context, s Server) (existing Server, inserted bool, err error)
	// Seen sets LastSeen and UpdatedAt, and nothing else.
	Seen(ctx context.Context, url string, at time.Time) error
	// MakeKnown makes a stranger a known server, whose record does not expire.
	MakeKnown(ctx context.Context, url string) error
	// ForgetStranger removes the record of a stranger. None is no error.
	ForgetStranger(ctx context.Context, url string) error
	// Announce records whether the server has registered us.
	Announce(ctx context.Context, url string, registered bool) error
	// SetKeys pins new keys for the operator, adds the record if there is none, and drops the
	// server's KeyChange. A server with new keys is Unannounced: it may have lost its registry.
	SetKeys(ctx context.Context, url, publicKey, encryptionKey string, at time.Time) error

	// ReserveTry reserves the next try of a server that hangs: one that has given no answer since
	// it was marked unhealthy with TimedOut. It returns the zero time if the caller may deliver
	// now; the next caller may do so after every. Any other time: call again then. For a server
	// that does not hang it always returns the zero time.
	ReserveTry(ctx context.Context, url string, now time.Time, every time.Duration) (time.Time, error)
	// MarkAnswering records that the server does not hang.
	MarkAnswering(ctx context.Context, url string) error

	// MarkUnhealthy sets the reason and resets the count of checks.
	MarkUnhealthy(ctx context.Context, url string, reason Reason, at time.Time) error
	// MarkHealthy clears reason and count and sets LastSeen.
	MarkHealthy(ctx context.Context, url string, at time.Time) error
	// CountCheck adds a failed check to an unhealthy server and returns the new count; from limit
	// on the server is Exhausted. If the server has become healthy: ErrHealthy.
	CountCheck(ctx context.Context, url string, limit int, at time.Time) (int, error)

	// RecordKeyChange records that a server showed keys that were refused.
	RecordKeyChange(ctx context.Context, c KeyChange) error
	// KeyChanges returns all of them, in no order.
	KeyChanges(ctx context.Context) ([]KeyChange, error)
}

type BlockList interface {
	// Blocked returns the block of the server's URL, its host or a domain above; nil: not blocked.
	Blocked(ctx context.Context, serverURL string) (*Block, error)
	// Blocks returns all blocks of Sipher servers, in no order.
	Blocks(ctx context.Context) ([]Block, error)
	// Block adds or replaces a block.
	Block(ctx context.Context, b Block) error
	// Unblock removes a block. None is no error.
	Unblock(ctx context.Context, serverURL string) error
}

// Admit registers a server under the keys it shows; via is Discovered or Registered. If it is
// known, only LastSeen and UpdatedAt change. If it is known with other keys, the error wraps
// ErrKeyChanged, and the attempt is recorded, unless a stranger registers itself.
func Admit(ctx context.Context, store Store, shown wire.Card, via string, now time.Time) (Server, error) {
	s := Server{
		URL: shown.URL, PublicKey: shown.PublicKey, EncryptionKey: shown.EncryptionKey,
		LastSeen: now, CreatedAt: now, UpdatedAt: now, IsHealthy: true,
		Stranger: via == Registered,
		// Whom we discover is asked to register us after this write. Whoever registers itself has
		// discovered us before.
		Unannounced: via == Discovered,
	}
	existing, inserted, err := store.Insert(ctx, s)
	if err != nil {
		return Server{}, fmt.Errorf("register %s: %w", shown.URL, err)
	}
	if inserted {
		return s, nil
	}
	if !shown.SameKeys(wire.Card{PublicKey: existing.PublicKey, EncryptionKey: existing.EncryptionKey}) {
		return Server{}, refuse(ctx, store, existing, shown, via, now)
	}
	if err := store.Seen(ctx, shown.URL, now); err != nil {
		return Server{}, fmt.Errorf("register %s: %w", shown.URL, err)
	}
	existing.LastSeen, existing.UpdatedAt = now, now
	return existing, nil
}

func refuse(ctx context.Context, store Store, known Server, shown wire.Card, via string, now time.Time) error {
	refusal := fmt.Errorf("%w: %s is registered with signing key %.16s and encryption key %.16s, and shows %.16s and %.16s (fingerprints)",
		ErrKeyChanged, shown.URL, crypto.Fingerprint(known.PublicKey), crypto.Fingerprint(known.EncryptionKey),
		crypto.Fingerprint(shown.PublicKey), crypto.Fingerprint(shown.EncryptionKey))
	if known.Stranger && via == Registered {
		// Only logged: anybody can register any number of servers and change their keys.
		return refusal
	}
	err := store.RecordKeyChange(ctx, KeyChange{
		URL: shown.URL, PublicKey: shown.PublicKey, EncryptionKey: shown.EncryptionKey,
		Via: via, First: now, Last: now, Count: 1,
	})
	if err != nil {
		return fmt.Errorf("%w; recording that failed: %w", refusal, err)
	}
	return refusal
}
