// Package circuit is the state of a remote server as all workers share it: the
// circuit that decides whether deliveries go out, wait, or are given up.
//
// It is a pure state machine over a clock. Workers load a State, apply what
// they saw with one of its methods, and save it back with compare-and-swap;
// so a thousand concurrent functions agree on one circuit, no increment is
// lost, and days of outage are tested in microseconds. A healthy host has no
// record at all and costs nothing; the records of hosts that were never any
// good expire, so a hostile list of hosts cannot grow the table for ever.
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
	// Exhausted: down for longer than the give-up time; what is parked dies,
	// what comes is parked.
	Exhausted Phase = "exhausted"
	// Gone: a look at the server has confirmed a 410 for the whole of it;
	// deliveries fail until State.Until.
	Gone Phase = "gone"
	// Blocked: an operator refuses deliveries to it.
	Blocked Phase = "blocked"
)

// State is the record of one server, or of one inbox whose fault is its own.
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
	// Doubt says that an inbox which many actors share has answered 410, and that
	// a look at the server is due to tell whether it is gone; DoubtAt is when
	// that was last asked for.
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
	// CheckAt is when the scheduled function has something to do for this
	// server: a probe, the end of a pause, the next release. Zero: nothing.
	CheckAt time.Time `json:"-"`

	// Parked says that deliveries may be parked under Key: set before the first
	// is parked, cleared when the lot was seen empty.
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

// Sweep is a place in a lot that is being released: everything before it has
// been looked at since the sweep began.
type Sweep struct {
	Shard int    `json:"shard,omitempty"`
	After string `json:"after,omitempty"`
	// Left says that something was left in place on the way: the head of an
	// ordered group, which keeps its spot until it is final.
	Left bool `json:"left,omitempty"`
}

// HostKey and InboxKey make the keys of State.
func HostKey(host string) string   { return hostPrefix + host }
func InboxKey(inbox string) string { return inboxPrefix + inbox }

const (
	hostPrefix  = "host:"
	inboxPrefix = "inbox:"
)

// HostOf returns the host that a key is of, and whether it is of the whole host.
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
	// the first page is empty, and so is next after the last; a page may be
	// shorter than limit and not the last. One that is none of ours gives
	// ErrCursor.
	ListServers(ctx context.Context, cursor string, limit int) (states []State, next string, err error)
	// DueServers returns states of a shard whose CheckAt is at or before now.
	DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]State, error)
}

// Shards is how many parts the schedule of checks is split in, so that several
// runs can share the work and no index partition runs hot.
const Shards = 4
