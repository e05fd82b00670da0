package deliver

import (
	"cmp"
	"context"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/ratelimit"
)

// Queue is what deliver needs of a queue: to send to it, and to decide when a
// message that was received from it comes back.
type Queue interface {
	queue.Sender
	ChangeVisibility(ctx context.Context, handle string, d time.Duration) error
}

// longest is the longest that one attempt takes.
func (u *unit) longest() time.Duration {
	longest := cmp.Or(u.route.Attempt, u.Limits.Attempt)
	if t := u.route.Policy.Timeout; t > 0 {
		longest = min(longest, t)
	}
	return longest
}

// Death is a delivery that was given up.
type Death struct {
	Activity  activity.Activity
	Recipient ledger.Recipient
	// Reason in one word, such as "exhausted", for an attribute of the message.
	Reason string
}

// Undertaker buries deliveries: it records them as dead letters and sends them
// to the dead-letter queue. Burying one twice is harmless. It does not write
// the ledger's record, which its caller does afterwards.
type DeadLetterWriter interface {
	Add(ctx context.Context, ds []Death) error
}

// Redundancy tells which deliveries need not be sent. It is asked only about
// activities that were submitted with coalesce.
type Coalescer interface {
	// Needless returns, by index into ts, what makes sending a to that target
	// needless.
	Needless(ctx context.Context, a activity.Activity, ts []activity.Target) (map[int]coalesce.Verdict, error)
	// Delivered notes that a was delivered to ts.
	Delivered(ctx context.Context, a activity.Activity, ts []activity.Target) error
}

// Limiter keeps deliveries to a host below its rate. It is asked only about
// hosts whose state says that they have one.
type Limiter interface {
	// Reserve asks for n deliveries to host, and returns when each may be sent:
	// the zero time is now.
	Reserve(ctx context.Context, host string, n int) ([]time.Time, error)
	// Book reserves up to n deliveries to host for times of their own, none later
	// than horizon from now, and returns those times, earliest first.
	Book(ctx context.Context, host string, n int, horizon time.Duration) ([]time.Time, error)
	// Learn notes that host answered 429 while it accepted perMinute deliveries a
	// minute (0: not known), and returns the limit from now on.
	Learn(ctx context.Context, host string, perMinute int) (ratelimit.Limit, error)
}

// Meter counts for metrics and statistics.
type Meter interface {
	// Attempted is called after each attempt, with the state it led to.
	Attempted(a activity.Activity, o outcome.Outcome, s activity.State)
	// Counted adds to a counter, such as "Parked".
	Counted(name string, n int)
	// Recorded counts what was just recorded in the ledger.
	Recorded(rs []ledger.Recipient)
	// Flush is called at the end of a batch, after which the process may be
	// frozen for good.
	Flush(ctx context.Context)
}

type unmetered struct{}

func (unmetered) Attempted(activity.Activity, outcome.Outcome, activity.State) {}
func (unmetered) Counted(string, int)                                          {}
func (unmetered) Recorded([]ledger.Recipient)                                  {}
func (unmetered) Flush(context.Context)                                        {}
