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

// Phase is where a server stands.
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
	// Exhausted: down for longer than the give-up time. Parked deliveries that are
	// overdue die, new ones are parked.
	Exhausted Phase = "exhausted"
	// Gone: the server has answered a probe with 410, too. Deliveries fail until
	// State.Until.
	Gone Phase = "gone"
	// Blocked: an operator refuses deliveries to it.
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

	// Throttles counts the pauses that the server has asked for in a row, without
	// a delivery accepted in between.
	Throttles int `json:"throttles,omitempty"`
	// Doubt says that a shared inbox has answered 410, and that a probe is due to show
	// whether the server is gone. DoubtAt is when a shared inbox last led to such a
	// probe.
	Doubt   bool      `json:"doubt,omitempty"`
	DoubtAt time.Time `json:"doubtAt,omitzero"`

	// DownSince is when the present outage began; zero if there is none.
	DownSince time.Time `json:"down,omitzero"`

	// Streak counts failures in a row; Window the last five minutes' outcomes.
	Streak int    `json:"streak,omitempty"`
	Window Window `json:"window,omitzero"`

	// Checks counts the failed checks of this outage.
	Checks int `json:"checks,omitempty"`
	// Trials counts the trials of the present check, and Tried is a digest of the
	// inbox that the last one went to.
	Trials int    `json:"trials,omitempty"`
	Tried  string `json:"tried,omitempty"`
	// Ramp is the number released at the next step of a recovery.
	Ramp int `json:"ramp,omitempty"`
	// CheckAt is when the scheduled function takes the next step for this server: a
	// probe, the end of a pause, a release. Zero: no step is due.
	CheckAt time.Time `json:"-"`

	// Parked says that deliveries may be parked under Key. It is set before the first
	// one is parked, and cleared when the lot was seen empty.
	Parked bool `json:"parked,omitempty"`
	// Sweep is how far the releases of the present recovery have come.
	Sweep Sweep `json:"sweep,omitzero"`
	// InboxesUntil: single inboxes of this host may have states of their own
	// until then. Zero: none has.
	InboxesUntil time.Time `json:"inboxes,omitzero"`

	// Form is the signature form the host is known to take, until FormUntil.
	Form      string    `json:"form,omitempty"`
	FormUntil time.Time `json:"formUntil,omitzero"`
	// MaybeForm is a form that the host has taken once, at MaybeFormAt, after it
	// had refused the expected one.
	MaybeForm   string    `json:"maybeForm,omitempty"`
	MaybeFormAt time.Time `json:"maybeFormAt,omitzero"`

	// Rate is the allowed deliveries per minute, set by an operator or, until
	// RateUntil, learnt; 0: no limit. How much of it is used is in package
	// ratelimit.
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
	// Inbox is a digest of the one that all failures came from; "*" if several.
	Inbox string `json:"inbox,omitempty"`
}

// Sweep is a place in a lot that is being released. All deliveries before this place were
// looked at since the sweep began.
type Sweep struct {
	Shard int    `json:"shard,omitempty"`
	After string `json:"after,omitempty"`
	// Left says that the sweep has left spots behind: those of heads of ordered groups,
	// which keep their spots until they are final.
	Left bool `json:"left,omitempty"`
}

// HostKey and InboxKey make the keys of State.
func HostKey(host string) string   { return hostPrefix + host }
func InboxKey(inbox string) string { return inboxPrefix + inbox }

const (
	hostPrefix  = "host:"
	inboxPrefix = "inbox:"
)

// HostOf returns the host of a key. whole is true for a host's key, and false for that of
// an inbox.
func HostOf(key string) (host string, whole bool) {
	if host, ok := strings.CutPrefix(key, hostPrefix); ok {
		return host, true
	}
	return activity.HostOf(strings.TrimPrefix(key, inboxPrefix)), false
}

// ErrChanged says that a state was saved by another worker since it was loaded.
var ErrChanged = errors.New("server state has changed")

// ErrCursor says that a cursor is not one that ListServers gave out.
var ErrCursor = errors.New("no such cursor")

// Store is what the circuit needs of its storage.
type Store interface {
	// Servers returns the states that exist, by key, in one request per 100.
	Servers(ctx context.Context, keys ...string) (map[string]State, error)
	// SaveServer writes s if the stored version is s.Version (or none, if that
	// is empty) and returns it with its new version, else ErrChanged.
	SaveServer(ctx context.Context, s State) (State, error)
	// ListServers pages through all states, in no meaningful order. The cursor of
	// the first page is empty, and so is next after the last; a page may be shorter
	// than limit and not be the last. A cursor that fedpost did not make is
	// ErrCursor.
	ListServers(ctx context.Context, cursor string, limit int) (states []State, next string, err error)
	// DueServers returns states of a shard whose CheckAt is at or before now.
	DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]State, error)
}

// Shards is how many parts the schedule of checks is split in, so that several
// runs can share the work and no index partition runs hot.
const Shards = 4
