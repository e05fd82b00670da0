package deliver

import (
	"context"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/message/tracing"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
)

// classify decides what becomes of a target after its attempt.
func (u *unit) classify(ctx context.Context, j *job) {
	if !j.attempt {
		return // parked or refused meanwhile, or not begun
	}
	if j.out.Try == outcome.Waiting {
		u.crowded(j, j.out.Err)
		return
	}
	u.learn(j)
	policy := u.route.Policy
	switch {
	case j.out.Class == outcome.Delivered:
		j.state = activity.Delivered
	case j.out.Class == outcome.Refused, j.out.Class == outcome.Gone, !policy.Again(j.out, j.tries()) && j.out.Try == outcome.Made:
		j.state = activity.Failed
	default:
		u.postpone(ctx, j)
	}
	u.report(ctx, j)
}

// postpone decides when a target that failed for now is tried again.
func (u *unit) postpone(ctx context.Context, j *job) {
	policy, now := u.route.Policy, u.Now()
	ours := j.out.Try == outcome.Untried
	if ours {
		u.Meter.Counted(cameBack, 1)
	}
	wait := policy.WaitAfter(j.out, max(1, j.tries()), u.Random())
	if ours {
		wait = max(wait, policy.Wait(u.m.ReceiveCount, u.Random()))
	}
	if asked := j.out.RetryAfter.Sub(now); !j.out.RetryAfter.IsZero() && asked > wait {
		wait = asked
	}
	if policy.Circuit {
		if s, decision := u.decision(j.place); decision == circuit.Wait && policy.Park {
			if u.wait(j, s); u.ofInbox(j, s) {
				j.lot = circuit.InboxKey(j.target.Inbox)
			}
			return
		}
	}
	switch {
	case ours, policy.Left(j.tries()) > 0:
		j.state, j.next = activity.Retrying, now.Add(wait)
	case policy.Park && u.a.Ordered():
		j.state, j.lot, j.hold = activity.Parked, circuit.HostKey(j.host), true
		j.due = now.Add(u.Rules.HeldWait(j.tries()-policy.Tries, now.Sub(u.dueSince())))
		j.next = j.due
	case policy.Park && j.out.Class == outcome.Unverified:
		j.state, j.lot = activity.Parked, circuit.InboxKey(u.signed(j.target).Inbox)
	case policy.Park:
		j.state, j.lot = activity.Parked, circuit.InboxKey(j.target.Inbox)
	default:
		u.exhaust(ctx, j, "exhausted", fmt.Sprintf("%d tries failed", j.tries()))
	}
}

// ofInbox reports whether a failed attempt is the fault of its inbox, and not of its host s,
// which is down. In the lot of the inbox the delivery is in the way of no other inbox.
func (u *unit) ofInbox(j *job, s circuit.State) bool {
	_, whole := circuit.HostOf(s.Key)
	return whole && !u.a.Ordered() && s.Blames(j.target.Inbox, j.out)
}

// exhaust gives a target up.
func (u *unit) exhaust(ctx context.Context, j *job, reason, why string) {
	j.attempt, j.state, j.reason = false, activity.Dead, reason
	if j.out.Err == "" {
		j.out.Err = j.last.LastError
	}
	if j.out.Err == "" {
		j.out.Err = why
	}
	if j.out.Status == 0 {
		j.out.Status = j.last.LastStatus
	}
	if j.out.Status == 0 {
		j.out.Status = u.route.Policy.ExhaustedStatus
	}
	j.note = why
	u.Log.ErrorContext(ctx, "a delivery is given up", "activity", u.a.ID, "target", j.target.Inbox, "host", j.host,
		"attempts", j.attempts, "tries", u.route.Policy.Tries, "reason", reason, "status", j.out.Status, "error", j.out.Err)
}

// learn notes what an attempt says about its host. It waits for no table.
func (u *unit) learn(j *job) {
	if !u.route.Policy.Circuit {
		return
	}
	now := u.Now()
	switch o := j.out; {
	case o.Class == outcome.Gone && u.a.Type == "Delete":
		// Some servers answer 410 to a Delete of an actor that they never saw.
		u.Hosts.Observe(j.host, j.target.Inbox, o)
	case o.Class == outcome.Gone:
		u.Hosts.Learn(circuit.HostKey(j.host), cache.Lesson{Kind: "gone", Apply: func(s circuit.State) circuit.State {
			return s.SaidGone(u.Rules, o.Err, now)
		}})
	case o.Class == outcome.Throttled:
		u.throttled(j.host, o)
	default:
		ofInbox := u.triesInbox(j)
		if u.d.Trial {
			u.judge(j)
		}
		if ofInbox && o.HostFault() && o.Status != 0 {
			return // the inbox's own circuit has this, and the host's learns nothing new
		}
		u.Hosts.Observe(j.host, j.target.Inbox, o)
	}
}

// triesInbox reports whether j is the trial of an inbox with a circuit of its own.
func (u *unit) triesInbox(j *job) bool {
	if !u.d.Trial {
		return false
	}
	s, _ := u.decision(j.place)
	_, whole := circuit.HostOf(s.Key)
	return !whole && s.Trying(u.Now())
}

// judge ends the trial of the server that j was released to try.
func (u *unit) judge(j *job) {
	s, _ := u.decision(j.place)
	if !s.Trying(u.Now()) {
		return
	}
	o, now := j.out, u.Now()
	unverified := o.Class == outcome.Unverified && s.Key == circuit.InboxKey(u.signed(j.target).Inbox)
	u.Hosts.Learn(s.Key, cache.Lesson{Kind: "trial", Apply: func(s circuit.State) circuit.State {
		switch {
		case o.Try != outcome.Made:
			return s.TrialVoid(u.Rules, now)
		case o.HostFault(), unverified:
			return s.TrialFailed(u.Rules, o.Reason, o.Err, now)
		case o.Class == outcome.Unverified:
			return s.TrialAnswered(u.Rules, now)
		}
		took := ""
		if o.Class == outcome.Delivered {
			took = j.target.Inbox
		}
		return s.TrialPassed(u.Rules, took, now)
	}})
}

// void asks for another trial if a trial has ended without an attempt, for example because
// its delivery was cancelled meanwhile.
func (v *invocation) void(ctx context.Context, a activity.Activity, t activity.Target) error {
	u := &unit{invocation: v, a: a}
	place := u.place(t.Host(), t)
	if _, err := v.Hosts.LoadFor(ctx, false, place); err != nil {
		return err
	}
	s, _ := u.decision(place)
	if !s.Trying(v.Now()) {
		return nil
	}
	return v.Hosts.Change(ctx, s.Key, func(s circuit.State) circuit.State { return s.TrialVoid(v.Rules, v.Now()) })
}

// report logs an attempt in one line, and counts it. The line has everything about the
// attempt, so protocols log none of their own.
func (u *unit) report(ctx context.Context, j *job) {
	u.Meter.Attempted(u.a, j.out, j.state)
	u.Trace.Attempted(ctx, tracing.Attempt{Inbox: j.target.Inbox, Ended: j.answered, Tries: j.tries(), Out: j.out, State: j.state})
	args := []any{
		"activity", u.a.ID, "type", u.a.Type, "target", j.target.Inbox, "host", j.host, "attempt", j.tries(),
		"state", j.state, "class", j.out.Class, "status", j.out.Status, "ms", j.out.Took.Milliseconds(),
	}
	if u.a.Job != "" {
		args = append(args, "job", u.a.Job)
	}
	if j.out.Method != "" {
		args = append(args, "method", j.out.Method)
	}
	if j.out.Class == outcome.Delivered {
		u.Log.InfoContext(ctx, "delivered", args...)
		return
	}
	remaining := u.route.Policy.Left(j.tries())
	if j.state.Final() {
		remaining = 0
	}
	args = append(args, "remaining", remaining, "reason", j.out.Reason, "error", j.out.Err)
	u.Log.WarnContext(ctx, "attempt failed", args...)
}
