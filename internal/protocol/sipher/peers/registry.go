package peers

import (
	"context"
	"errors"
	"time"
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
