package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/admission"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/ledger"
	"fedpost/internal/message/tracing"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
)

// attempt makes one attempt. It may have waited long for its place, so attempt reads the host's
// state again and spares a host that is down meanwhile.
func (v *invocation) attempt(ctx context.Context, u *unit, j *job, try protocol.Attempt) admission.Result {
	late := func() bool { return v.lateFor(u.longest(v.Limits.Attempt)) }
	// The table may take long to say whether the activity was cancelled.
	if late() || v.kept.closed() || v.cancelled(ctx, u) || late() {
		j.verdict = verdict.NotNow{}
		return admission.Unsent
	}
	if v.lookAgain(u, j); !j.due() {
		return admission.Unsent
	}
	j.out = v.contain(ctx, u, j, try)
	j.answered = time.Now()
	if j.out.Class == outcome.Doubtful && !u.route.Policy.Again(j.out, j.tries()+1) {
		j.out.Class = outcome.Refused // it ends the delivery, so its request is not in vain
	}
	lessons{v.Engine}.learnOfInbox(u, j)
	if j.out.Try != outcome.Waiting {
		lessons{v.Engine}.learn(u, j)
	}
	switch {
	case j.out.Try == outcome.Made:
		j.attempts++
	case j.out.Try == outcome.Unsent:
		j.unsent++
	default:
		return admission.Unsent
	}
	v.addTry(ctx, u, j)
	return resultOf(j.out)
}

func (v *invocation) addTry(ctx context.Context, u *unit, j *job) {
	tries, err := j.last.Tries.Add(ledger.Try{At: v.Now(), Status: j.out.Status, Error: j.out.Err, Form: j.out.Form, Took: j.out.Took})
	if err != nil {
		v.Log.WarnContext(ctx, "the last attempts of a recipient cannot be read", "activity", u.a.ID, "target", j.target.Inbox, "error", err)
		return
	}
	j.tried = tries
}

// cancelledAgo is how long after its cancellation an activity's attempts may still begin. It
// costs one read for each unit whose attempts take longer to begin.
const cancelledAgo = time.Second

// cancelled reports whether u's activity was cancelled, as of cancelledAgo ago. If the record
// cannot be read, it was not.
func (e *Engine) cancelled(ctx context.Context, u *unit) bool {
	u.looking <- struct{}{}
	defer func() { <-u.looking }()
	if now := e.Now(); !u.over && now.Sub(u.looked) >= cancelledAgo {
		u.looked = now
		r, err := e.Ledger.Activity(ctx, u.a.ID)
		u.over = err == nil && r.Cancelled
	}
	return u.over
}

// lookAgain decides about j by the present states of its servers.
func (e *Engine) lookAgain(u *unit, j *job) {
	if _, decision := e.Hosts.Decision(j.keys, e.Now()); decision != circuit.Send {
		e.judgeByServers(u, j)
	}
}

// judgeByServers is a function of its own because a snapshot would grow the stack of each
// attempt's goroutine.
func (e *Engine) judgeByServers(u *unit, j *job) {
	s := e.snapshot(u, j)
	j.verdict = verdict.ByServers(&s, j.named())
}

// longest is the time-out of an attempt: that of its route or else otherwise, within its policy's.
func (u *unit) longest(otherwise time.Duration) time.Duration {
	longest := cmp.Or(u.route.Attempt, otherwise)
	if t := u.route.Policy.Timeout; t > 0 {
		longest = min(longest, t)
	}
	return longest
}

// contain runs an attempt within its time-out. A panic becomes the attempt's outcome.
func (e *Engine) contain(ctx context.Context, u *unit, j *job, try protocol.Attempt) (o outcome.Outcome) {
	start := e.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, u.route.Wait+u.longest(e.Limits.Attempt), outcome.ErrTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			e.Log.ErrorContext(ctx, "panic in an attempt", "activity", u.a.ID, "target", j.target.Inbox,
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			o = outcome.Outcome{Class: outcome.Retry, Err: fmt.Sprintf("internal error: %v", r)}
		}
		o = o.Cleaned() // it may quote a remote server
		o.Took = e.Now().Sub(start)
	}()
	if u.route.Wait == 0 {
		protocol.Signed(ctx) // an ended attempt needs no processor
	}
	o = try(ctx, j.target, j.attempts+1)
	if o.Class == outcome.Retry && o.Status == 0 && o.Try == outcome.Made && errors.Is(context.Cause(ctx), outcome.ErrTimeout) {
		// The host has used up the time-out, whatever error the protocol made of it.
		o.Reason = outcome.Timeout
	}
	return o
}

// report logs and counts an attempt. The line has everything about it: protocols log nothing.
func (e *Engine) report(ctx context.Context, u *unit, j *job) {
	state := verdict.State(j.verdict)
	if j.out.Try == outcome.Untried && state != activity.Delivered && state != activity.Failed {
		e.Meter.Counted(intake.CameBack, 1)
	}
	e.Meter.Attempted(u.a, j.out, state)
	e.Trace.Attempted(ctx, tracing.Attempt{Inbox: j.target.Inbox, Ended: j.answered, Tries: j.tries(), Out: j.out, State: state})
	args := []any{
		"activity", u.a.ID, "type", u.a.Type, "target", j.target.Inbox, "host", j.host, "attempt", j.tries(),
		"state", state, "class", j.out.Class, "status", j.out.Status, "ms", j.out.Took.Milliseconds(),
	}
	if u.a.Job != "" {
		args = append(args, "job", u.a.Job)
	}
	if j.out.Method != "" {
		args = append(args, "method", j.out.Method)
	}
	if j.out.Class == outcome.Delivered {
		e.Log.InfoContext(ctx, "delivered", args...)
		return
	}
	remaining := u.route.Policy.Left(j.tries())
	if state.Final() {
		remaining = 0
	}
	args = append(args, "remaining", remaining, "reason", j.out.Reason, "error", j.out.Err)
	e.Log.WarnContext(ctx, "attempt failed", args...)
}

// resultOf is what an outcome shows about its host. An inbox that does not exist, answered at
// once, takes no place from others.
func resultOf(o outcome.Outcome) admission.Result {
	switch {
	case o.Class == outcome.Delivered:
		return admission.Accepted
	case o.Class == outcome.Refused, o.Class == outcome.Gone:
		return admission.Unsent
	}
	return admission.Failed
}
