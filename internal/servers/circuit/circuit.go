// Package circuit is the circuit breaker of a remote server, shared by all workers. It decides
// whether deliveries are sent, parked or failed.
//
// It is a pure state machine over a clock. Workers load a State, change it by one of its
// methods and save it by compare-and-swap, so that a thousand functions agree on one circuit. A
// healthy host has no record. Records of hosts that never worked expire, so that hostile hosts
// cannot fill the table.
package circuit

import (
	"context"
	"errors"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

// Phase is the phase of a circuit.
type Phase string

// The phases.
const (
	// Healthy: deliveries go out.
	Healthy Phase = "healthy"
	// Unhealthy: the circuit is open; deliveries are parked until a check
	// succeeds.
	Unhealthy Phase = "unhealthy"
	// HalfOpen: a check succeeded and one parked delivery is on trial.
	HalfOpen Phase = "half-open"
	// Recovering: the trial succeeded; new deliveries go out, and parked ones are
	// released a growing number at a time.
	Recovering Phase = "recovering"
	// Paused: the server asked for a pause until State.Until.
	Paused Phase = "paused"
	// Exhausted: the server is down for longer than the give-up time. Overdue parked
	// deliveries become dead letters; new deliveries are parked.
	Exhausted Phase = "exhausted"
	// Gone: a shared inbox of the server has answered 410, and so has a probe. Deliveries
	// fail until State.Until.
	Gone Phase = "gone"
	// Blocked: an operator has blocked the server, so deliveries fail.
	Blocked Phase = "blocked"
)

// State is the record of one server, or of an inbox that fails while its host works.
type State struct {
	// Key is "host:<authority>" or "inbox:<url>".
	Key    string         `json:"-"`
	Phase  Phase          `json:"phase"`
	Since  time.Time      `json:"since"`          // of this phase
	Until  time.Time      `json:"until,omitzero"` // Paused, Gone: when it ends
	Why    string         `json:"why,omitempty"`  // in words, for operators
	Reason outcome.Reason `json:"reason,omitempty"`
	// KeyID is the signing key of a state for one key, if it has at most longestKeyID bytes.
	// Key has its digest.
	KeyID string `json:"keyId,omitempty"`

	// LastEvent is the last phase that became an event; see Transition.
	LastEvent Phase `json:"told,omitempty"`

	// Throttles counts the pauses in a row that the server asked for, without an accepted
	// delivery in between.
	Throttles int `json:"throttles,omitempty"`
	// Slow has digests of up to slowInboxes inboxes, separated by spaces, that asked for a
	// pause since SlowAt, while no inbox accepted a delivery. In the state of a host and a
	// signing key, they are inboxes that could not verify the key.
	Slow   string    `json:"slow,omitempty"`
	SlowAt time.Time `json:"slowAt,omitzero"`
	// Vain counts the requests in vain (outcome.Outcome.Vain) since the last accepted delivery:
	// up to three fifths of Rules.Budget, and above that those of the day since VainSince.
	Vain      int       `json:"vain,omitempty"`
	VainSince time.Time `json:"vainSince,omitzero"`
	// Unproven counts the failed checks of an outage that ended although nothing was accepted:
	// by a trial that was answered 401, or because nothing was parked for an inbox. The next
	// outage goes on from this count unless something is accepted before.
	Unproven int `json:"unproven,omitempty"`
	// Doubt says that a shared inbox has answered 410, and a probe is due. DoubtAt is when that
	// last happened.
	Doubt   bool      `json:"doubt,omitempty"`
	DoubtAt time.Time `json:"doubtAt,omitzero"`

	// DownSince is when the present outage began; zero: none.
	DownSince time.Time `json:"down,omitzero"`

	// Streak counts failures in a row; half-open, failed trials in a row. Window counts the
	// outcomes of the last Rules.Window.
	Streak int    `json:"streak,omitempty"`
	Window Window `json:"window,omitzero"`

	// Took is a digest of the inbox that accepted a delivery last; empty: not known. Lapsed
	// says that this inbox has failed one since. TookAt is when a host accepted one, as far as
	// that was known when its failures were counted.
	Took   string    `json:"took,omitempty"`
	TookAt time.Time `json:"tookAt,omitzero"`
	Lapsed bool      `json:"lapsed,omitempty"`

	// Checks counts the failed checks of this outage.
	Checks int `json:"checks,omitempty"`
	// Trials counts the trials since the server became half-open. Tried has digests of the
	// inboxes of the last trials, the latest last. Sole says that the last trial had no
	// alternative.
	Trials int    `json:"trials,omitempty"`
	Tried  string `json:"tried,omitempty"`
	Sole   bool   `json:"sole,omitempty"`
	// Ramp is how many deliveries the next release has.
	Ramp int `json:"ramp,omitempty"`
	// CheckAt is when the scheduled function takes the next step for this server: a probe, the
	// end of a pause, or a release. Zero: never.
	CheckAt time.Time `json:"-"`

	// Parked says that deliveries may be parked under Key, or dead ones revived (ReviveUntil).
	// It is set before the first delivery is parked, and cleared after the lot was seen empty.
	Parked bool `json:"parked,omitempty"`
	// ReviveUntil is until when dead deliveries are revived if this host comes back; zero:
	// there are none. Until then the host is checked.
	ReviveUntil time.Time `json:"revive,omitzero"`
	// Sweep is how far the present recovery has gone through the lot.
	Sweep Sweep `json:"sweep,omitzero"`
	// InboxesUntil is until when inboxes of this host may have states of their own; zero: none
	// has.
	InboxesUntil time.Time `json:"inboxes,omitzero"`

	// Form is the signature form that the host takes, until FormUntil. Without Form, FormUntil says
	// until when inboxes dispute it: see TookForm.
	Form      string    `json:"form,omitempty"`
	FormUntil time.Time `json:"formUntil,omitzero"`
	// MaybeForm is a form that an inbox which speaks for the host has taken once, at MaybeFormAt,
	// after it refused the expected one. MaybeFormBy is its digest; empty: the shared inbox.
	MaybeForm   string    `json:"maybeForm,omitempty"`
	MaybeFormBy string    `json:"maybeFormBy,omitempty"`
	MaybeFormAt time.Time `json:"maybeFormAt,omitzero"`
	// Forms are those of single inboxes of the host.
	Forms Forms `json:"forms,omitempty"`

	// Rate is the rate limit in deliveries per minute; 0: none. An operator has set it, or
	// fedpost has learnt it (RateLearnt) until RateUntil. Package ratelimit counts its use.
	Rate       int       `json:"rate,omitempty"`
	RateLearnt bool      `json:"rateLearnt,omitempty"`
	RateUntil  time.Time `json:"rateUntil,omitzero"`

	// Version is that of the stored record; empty: there is none.
	Version string `json:"-"`
	// Forget is when the record may be dropped.
	Forget time.Time `json:"-"`
}

// Window counts outcomes since Start.
type Window struct {
	Start    time.Time `json:"start,omitzero"`
	Total    int       `json:"total,omitempty"`
	Failures int       `json:"failures,omitempty"`
	// Inbox is a digest of the inbox of all failures; "*": several.
	Inbox string `json:"inbox,omitempty"`
}

// Sweep is a position in a lot that is being released.
type Sweep struct {
	Shard int    `json:"shard,omitempty"`
	After string `json:"after,omitempty"`
	// Left says that the sweep left deliveries in the lot: heads of ordered groups, which stay
	// until they are final.
	Left bool `json:"left,omitempty"`
}

// HostKey and InboxKey return keys of State.
func HostKey(host string) string   { return hostPrefix + host }
func InboxKey(inbox string) string { return inboxPrefix + inbox }

const (
	hostPrefix  = "host:"
	inboxPrefix = "inbox:"
)

// HostOf returns the host of a key. whole: it is the key of a host, and not of an inbox.
func HostOf(key string) (host string, whole bool) {
	if host, ok := strings.CutPrefix(key, hostPrefix); ok {
		return host, true
	}
	return activity.HostOf(strings.TrimPrefix(key, inboxPrefix)), false
}

func (s State) ofInbox() bool { return strings.HasPrefix(s.Key, inboxPrefix) }

// ErrChanged says that another worker has saved the state since it was loaded.
var ErrChanged = errors.New("server state has changed")

// ErrCursor says that a cursor was not given out by ListServers.
var ErrCursor = errors.New("no such cursor")

// Store stores states.
type Store interface {
	// Servers returns the states that exist, by key, in one request per 100.
	Servers(ctx context.Context, keys ...string) (map[string]State, error)
	// SaveServer writes s and returns it with its new version. If the stored version is
	// another, it returns ErrChanged. If s has a Transition, its event is written in the same
	// transaction.
	SaveServer(ctx context.Context, s State) (State, error)
	// ListServers pages through all states, in no order. A page may be shorter than limit
	// without being the last. A cursor that it did not give out is ErrCursor.
	ListServers(ctx context.Context, cursor string, limit int) (states []State, next string, err error)
	// DueServers returns up to limit states (0: all) of a shard whose CheckAt is at or before
	// now, the earliest first, also those that have expired. States that cannot be read are
	// missing, and an error names them.
	DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]State, error)
}

// Shards is the number of shards of the schedule of checks. The second half of them has the steps
// that make a probe: hosts that hang delay these, and no other steps may wait for them.
const Shards = 4
