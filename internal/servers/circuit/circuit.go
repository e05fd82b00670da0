// Package circuit is the state of a remote server, shared by all workers: the circuit that
// decides whether deliveries are sent, parked or failed.
//
// It is a pure state machine over a clock. Workers load a State, apply an event with one
// of its methods, and save the State by compare-and-swap. So a thousand concurrent
// functions agree on one circuit, no count is lost, and tests of days of outage take
// microseconds. A healthy host has no record and costs nothing. Records of hosts that
// never worked expire, so a hostile list of hosts cannot grow the table for ever.
package circuit

import (
	"context"
	"errors"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

// Phase is the phase of a server's circuit.
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
	// Recovering: the trial succeeded; new deliveries go out and parked ones are
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

// State is the record of one server, or of one inbox that fails while its host works.
type State struct {
	// Key is "host:<authority>" or "inbox:<url>".
	Key    string         `json:"-"`
	Phase  Phase          `json:"phase"`
	Since  time.Time      `json:"since"`          // of this phase
	Until  time.Time      `json:"until,omitzero"` // Paused, Gone: when it ends
	Why    string         `json:"why,omitempty"`  // in words, for operators
	Reason outcome.Reason `json:"reason,omitempty"`
	// KeyID names the signing key of a state that is for one key only, which Key has as a
	// digest. It has up to longestKeyID bytes.
	KeyID string `json:"keyId,omitempty"`

	// Told is the last phase that the application was told of; see News.
	Told Phase `json:"told,omitempty"`

	// Throttles counts the pauses that the server has asked for in a row, without
	// a delivery accepted in between.
	Throttles int `json:"throttles,omitempty"`
	// Slow has digests of up to slowInboxes inboxes, separated by spaces, that have asked for
	// a pause since SlowAt, while no inbox of the server has accepted a delivery. In the state
	// of a host and a signing key they are those that could not verify the key.
	Slow   string    `json:"slow,omitempty"`
	SlowAt time.Time `json:"slowAt,omitzero"`
	// Vain counts the requests that were in vain (outcome.Outcome.Vain) since the server last
	// accepted a delivery: up to three fifths of Rules.Budget, and on top those of the day that
	// began at VainSince.
	Vain      int       `json:"vain,omitempty"`
	VainSince time.Time `json:"vainSince,omitzero"`
	// Unproven counts the failed checks of an outage that ended although nothing was
	// accepted: with a trial that was answered 401, or because nothing was parked for an
	// inbox. An outage that follows before anything is accepted goes on from this count.
	Unproven int `json:"unproven,omitempty"`
	// Doubt says that a shared inbox has answered 410, and that a probe is due to show
	// whether the server is gone. DoubtAt is when a shared inbox last led to such a
	// probe.
	Doubt   bool      `json:"doubt,omitempty"`
	DoubtAt time.Time `json:"doubtAt,omitzero"`

	// DownSince is when the present outage began; zero if there is none.
	DownSince time.Time `json:"down,omitzero"`

	// Streak counts failures in a row. Window counts the outcomes of a few minutes
	// (Rules.Window).
	Streak int    `json:"streak,omitempty"`
	Window Window `json:"window,omitzero"`

	// Took is a digest of the inbox that accepted a delivery last, as far as the process
	// knew that noted a failure; empty if none is known. Lapsed says that this inbox has
	// failed one since.
	Took   string `json:"took,omitempty"`
	Lapsed bool   `json:"lapsed,omitempty"`

	// Checks counts the failed checks of this outage.
	Checks int `json:"checks,omitempty"`
	// Trials counts the trials since the server became half-open. Tried has digests of the
	// inboxes that the last trials went to, the last one last. Sole says that no inbox was
	// left to try in the same check when the last trial was sent.
	Trials int    `json:"trials,omitempty"`
	Tried  string `json:"tried,omitempty"`
	Sole   bool   `json:"sole,omitempty"`
	// Ramp is how many parked deliveries the next step of a recovery releases.
	Ramp int `json:"ramp,omitempty"`
	// CheckAt is when the scheduled function takes the next step for this server: a
	// probe, the end of a pause, a release. Zero: no step is due.
	CheckAt time.Time `json:"-"`

	// Parked says that deliveries may be parked under Key, or that dead ones are to be
	// parked again (ReviveUntil). Parked is set before the first delivery is parked, and
	// cleared after the lot was seen empty.
	Parked bool `json:"parked,omitempty"`
	// ReviveUntil is until when deliveries that died because this host was down are parked
	// again if the host comes back; zero: there are none. Until then the host is checked
	// like one for which deliveries are parked.
	ReviveUntil time.Time `json:"revive,omitzero"`
	// Sweep is how far the releases of the present recovery have come.
	Sweep Sweep `json:"sweep,omitzero"`
	// InboxesUntil is until when single inboxes of this host may have states of their
	// own. Zero: no inbox has one.
	InboxesUntil time.Time `json:"inboxes,omitzero"`

	// Form is the signature form the host is known to take, until FormUntil.
	Form      string    `json:"form,omitempty"`
	FormUntil time.Time `json:"formUntil,omitzero"`
	// MaybeForm is a form that the host has taken once, at MaybeFormAt, after it
	// had refused the expected one.
	MaybeForm   string    `json:"maybeForm,omitempty"`
	MaybeFormAt time.Time `json:"maybeFormAt,omitzero"`

	// Rate is the rate limit in deliveries per minute; 0: no limit. An operator has set
	// it, or fedpost has learnt it (RateLearnt) and keeps it until RateUntil. Package
	// ratelimit counts how much of the limit is used.
	Rate       int       `json:"rate,omitempty"`
	RateLearnt bool      `json:"rateLearnt,omitempty"`
	RateUntil  time.Time `json:"rateUntil,omitzero"`

	// Version fences saves; empty if the record does not exist yet.
	Version string `json:"-"`
	// Forget is when the record may be dropped.
	Forget time.Time `json:"-"`
}

// Window counts outcomes since Start.
type Window struct {
	Start    time.Time `json:"start,omitzero"`
	Total    int       `json:"total,omitempty"`
	Failures int       `json:"failures,omitempty"`
	// Inbox is a digest of the inbox that all failures came from; "*" if there are
	// several such inboxes.
	Inbox string `json:"inbox,omitempty"`
}

// Sweep is a place in a lot that is being released. All deliveries before this place were
// looked at since the sweep began.
type Sweep struct {
	Shard int    `json:"shard,omitempty"`
	After string `json:"after,omitempty"`
	// Left says that the sweep has left spots behind. Only heads of ordered groups are
	// left: a head keeps its spot until its delivery is final.
	Left bool `json:"left,omitempty"`
}

// HostKey and InboxKey make the keys of State.
func HostKey(host string) string   { return hostPrefix + host }
func InboxKey(inbox string) string { return inboxPrefix + inbox }

const (
	hostPrefix  = "host:"
	inboxPrefix = "inbox:"
)

// HostOf returns the host of a key. whole is true for the key of a host, and false for the
// key of an inbox.
func HostOf(key string) (host string, whole bool) {
	if host, ok := strings.CutPrefix(key, hostPrefix); ok {
		return host, true
	}
	return activity.HostOf(strings.TrimPrefix(key, inboxPrefix)), false
}

// ofInbox reports whether s is the state of an inbox, or of a signing key.
func (s State) ofInbox() bool { return strings.HasPrefix(s.Key, inboxPrefix) }

// ErrChanged says that a state was saved by another worker since it was loaded.
var ErrChanged = errors.New("server state has changed")

// ErrCursor says that ListServers did not give out the cursor.
var ErrCursor = errors.New("no such cursor")

// Store is what the circuit needs of its storage.
type Store interface {
	// Servers returns the states that exist, by key, in one request per 100.
	Servers(ctx context.Context, keys ...string) (map[string]State, error)
	// SaveServer writes s and returns s with its new version. If the stored version is
	// not s.Version (empty: no record is stored), SaveServer returns ErrChanged. If s has
	// News, their event is written with it, or neither is.
	SaveServer(ctx context.Context, s State) (State, error)
	// ListServers pages through all states, in no meaningful order. An empty cursor asks
	// for the first page; an empty next says that this page is the last. A page may be
	// shorter than limit without being the last. A cursor that ListServers did not give
	// out is ErrCursor.
	ListServers(ctx context.Context, cursor string, limit int) (states []State, next string, err error)
	// DueServers returns up to limit states of a shard whose CheckAt is at or before now.
	DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]State, error)
}

// Shards is how many parts the schedule of checks is split in, so that several
// runs can share the work and no index partition runs hot.
const Shards = 4
