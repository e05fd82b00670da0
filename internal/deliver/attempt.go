package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
)

// attemptAll makes the attempts of a unit, as many at once as the limiter allows, and
// classifies each. Its loop waits for no queue or table, because all answers wait for the
// loop.
func (u *unit) attemptAll(ctx context.Context) {
	results := make(chan *job, len(u.jobs))
	var entries []*entry
	running := 0
	var try protocol.Attempt
	u.ahead.pass(len(u.d.Targets) - len(u.jobs))
	for _, j := range u.jobs {
		if !j.attempt {
			u.ahead.pass(1)
			continue
		}
		if try == nil {
			try = u.route.Sender.Prepare(ctx, u.a)
		}
		running++
		if !u.mayBegin(j) {
			u.ahead.pass(1)
			results <- j
			continue
		}
		entries = append(entries, u.enter(ctx, j, func() { u.attempt(ctx, try, j) }, func() { results <- j }))
	}
	stop := context.AfterFunc(ctx, func() {
		for _, e := range entries {
			u.limiter.cancel(e)
		}
	})
	defer stop()
	for range running {
		j := <-results
		u.classify(ctx, j)
		u.journal.add(u, j)
	}
}

// mayBegin reports whether an attempt may be made now, if there is a place for it.
func (u *unit) mayBegin(j *job) bool {
	if !u.mayVisit(j) {
		u.crowded(j, "waits until fewer deliveries to its site are under way")
		return false
	}
	if u.isRetry(j) {
		if ok, turn := u.mayRetry(); !ok {
			u.crowded(j, "waits until fewer retries are under way")
			j.next = turn
			return false
		}
	}
	return true
}

// settled reports whether nothing but a record is left to be made of j.
func (j *job) settled() bool {
	switch j.state {
	case activity.Delivered, activity.Failed, activity.Redundant, activity.Superseded:
		return true
	}
	return false
}

// attempt makes one attempt. Its place may have been long in coming, so attempt asks again
// for the host's state, and spares a host that has gone down meanwhile.
func (u *unit) attempt(ctx context.Context, try protocol.Attempt, j *job) {
	if u.lateFor(u.longest()) {
		j.attempt = false
		return
	}
	if u.route.Policy.Circuit {
		if u.meet(j); !j.attempt {
			return
		}
	}
	j.out = u.contain(ctx, try, j)
	j.answered = time.Now()
	u.learnOfInbox(j)
	if j.out.Class == outcome.Delivered {
		u.Hosts.Accepted(j.host)
	}
	switch {
	case j.out.Try == outcome.Made:
		j.attempts++
	case j.out.Try == outcome.Unsent:
		j.unsent++
	default:
		return
	}
	u.remember(ctx, j)
}

// remember adds the attempt that was just made to the last tries of j.
func (u *unit) remember(ctx context.Context, j *job) {
	tries, err := j.last.Tries.Add(ledger.Try{At: u.Now(), Status: j.out.Status, Error: j.out.Err, Form: j.out.Form, Took: j.out.Took})
	if err != nil {
		u.Log.WarnContext(ctx, "the last attempts of a recipient cannot be read", "activity", u.a.ID, "target", j.target.Inbox, "error", err)
		return
	}
	j.tried = tries
}

// contain runs an attempt within its time and turns a panic into its outcome.
func (u *unit) contain(ctx context.Context, try protocol.Attempt, j *job) (o outcome.Outcome) {
	start := u.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, u.route.Wait+u.longest(), outcome.ErrTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			u.Log.ErrorContext(ctx, "panic in an attempt", "activity", u.a.ID, "target", j.target.Inbox,
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			o = outcome.Outcome{Class: outcome.Retry, Err: fmt.Sprintf("internal error: %v", r)}
		}
		o = o.Cleaned() // strangers' text, whatever the protocol has let through
		o.Took = u.Now().Sub(start)
	}()
	o = try(ctx, j.target, j.attempts+1)
	if o.Class == outcome.Retry && o.Status == 0 && o.Try == outcome.Made && errors.Is(context.Cause(ctx), outcome.ErrTimeout) {
		// The host has used up the time of the attempt, whatever error the protocol
		// makes of the ended context.
		o.Reason = outcome.Timeout
	}
	return o
}
