package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/health"
	"fedpost/internal/ledger"
	"fedpost/internal/outcome"
)

// attemptAll makes the attempts of a unit, all at once as far as the caps allow,
// and decides what becomes of each. While some are slow, those that are settled
// are recorded: that bounds the time in which a crash would send them again.
func (u *unit) attemptAll(ctx context.Context) {
	results := make(chan *job)
	running := 0
	var try Attempt
	for _, j := range u.jobs {
		if !j.attempt {
			continue
		}
		if try == nil {
			try = u.route.Protocol.Prepare(ctx, u.a)
		}
		running++
		go func() {
			defer func() { results <- j }()
			u.attempt(ctx, try, j)
		}()
	}
	flush := time.NewTicker(u.Limits.Flush)
	defer flush.Stop()
	fresh := false
	for running > 0 {
		select {
		case j := <-results:
			running--
			u.settle(ctx, j)
			fresh = fresh || j.settled()
		case <-flush.C:
			if fresh {
				fresh = u.recordSettled(ctx) != nil
			}
		}
	}
}

// settled reports whether nothing but a record is left to be made of j.
func (j *job) settled() bool {
	switch j.state {
	case activity.Delivered, activity.Failed, activity.Redundant, activity.Superseded:
		return true
	}
	return false
}

// recordSettled records what is settled before the unit is finished. Failing is
// no harm: the end of the unit records it again.
func (u *unit) recordSettled(ctx context.Context) error {
	var rs []ledger.Recipient
	var js []*job
	for _, j := range u.jobs {
		if j.settled() && !j.stored {
			rs, js = append(rs, u.recipient(j)), append(js, j)
		}
	}
	if len(rs) == 0 {
		return nil
	}
	if err := u.record(ctx, rs, false); err != nil {
		u.Log.Warn("outcomes could not be recorded while others are awaited", "activity", u.a.ID, "error", err)
		return err
	}
	for _, j := range js {
		j.stored = true
	}
	return nil
}

// attempt makes one attempt when its turn has come. Its turn may come late, so
// what is known of the host is asked again: if the host has gone down since, it
// is spared.
func (u *unit) attempt(ctx context.Context, try Attempt, j *job) {
	perHost := u.hostSlots(j.host)
	perHost <- struct{}{}
	defer func() { <-perHost }()
	u.inFlight <- struct{}{}
	defer func() { <-u.inFlight }()
	if u.late() {
		j.attempt = false
		return
	}
	if u.route.Policy.Circuit {
		if u.meet(j); !j.attempt {
			return
		}
	}
	u.hosts.sent(j.host)
	j.out = u.contain(ctx, try, j)
	if !j.out.Unattempted {
		j.attempts++
	}
}

// hostSlots are the slots of a host's attempts in this invocation.
func (v *invocation) hostSlots(host string) chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	slots, ok := v.perHost[host]
	if !ok {
		slots = make(chan struct{}, v.Limits.PerHost)
		v.perHost[host] = slots
	}
	return slots
}

// contain runs an attempt within its time and turns a panic into its outcome.
func (u *unit) contain(ctx context.Context, try Attempt, j *job) (o outcome.Outcome) {
	start := u.Now()
	limit := u.Limits.Attempt
	if t := u.route.Policy.Timeout; t > 0 {
		limit = min(limit, t)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, outcome.ErrTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			u.Log.Error("panic in an attempt", "activity", u.a.ID, "target", j.target.Inbox,
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			o = outcome.Outcome{Class: outcome.Retry, Err: fmt.Sprintf("internal error: %v", r)}
		}
		o.Took = u.Now().Sub(start)
	}()
	o = try(ctx, j.target, j.attempts+1)
	if o.Class == outcome.Retry && o.Status == 0 && errors.Is(context.Cause(ctx), outcome.ErrTimeout) {
		// The time for one attempt is the host's to keep, whatever the protocol
		// makes of a context that has ended.
		o.Unattempted, o.Reason = false, outcome.Timeout
	}
	return o
}

// settle decides what becomes of a target after its attempt.
func (u *unit) settle(ctx context.Context, j *job) {
	if !j.attempt {
		return // parked or refused meanwhile, or not begun
	}
	u.learn(ctx, j)
	policy := u.route.Policy
	switch {
	case j.out.Class == outcome.Delivered:
		j.state = activity.Delivered
	case j.out.Class == outcome.Refused, j.out.Class == outcome.Gone, !policy.Again(j.out) && !j.out.Unattempted:
		j.state = activity.Failed
	default:
		u.postpone(j)
	}
	u.report(j)
}

// postpone decides when a target that failed for now is tried again.
func (u *unit) postpone(j *job) {
	policy, now := u.route.Policy, u.Now()
	wait := policy.Wait(max(1, j.attempts), u.Random())
	if j.out.Unattempted {
		wait = max(wait, policy.Wait(u.m.ReceiveCount, u.Random()))
	}
	if asked := j.out.RetryAfter.Sub(now); !j.out.RetryAfter.IsZero() && asked > wait {
		wait = asked
	}
	if policy.Circuit {
		if s, stance := u.hosts.stance(j.target, now); stance == health.Wait && policy.Park {
			u.wait(j, s)
			return
		}
	}
	switch {
	case j.out.Unattempted, policy.Left(j.attempts) > 0:
		j.state, j.next = activity.Retrying, now.Add(wait)
	case policy.Park && u.a.Ordered():
		j.state, j.lot, j.hold = activity.Parked, health.HostKey(j.host), true
	case policy.Park:
		j.state, j.lot = activity.Parked, health.InboxKey(j.target.Inbox)
	default:
		u.exhaust(j, "exhausted", fmt.Sprintf("%d attempts failed", j.attempts))
	}
}

// exhaust gives a target up.
func (u *unit) exhaust(j *job, reason, why string) {
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
	u.Log.Error("a delivery is given up", "activity", u.a.ID, "target", j.target.Inbox, "host", j.host,
		"attempts", j.attempts, "tries", u.route.Policy.Tries, "reason", reason, "status", j.out.Status, "error", j.out.Err)
}

// learn shares what an attempt says about its host.
func (u *unit) learn(ctx context.Context, j *job) {
	if !u.route.Policy.Circuit {
		return
	}
	key, now, rules := health.HostKey(j.host), u.Now(), u.Rules
	var err error
	switch o := j.out; {
	case o.Class == outcome.Gone:
		err = u.hosts.change(ctx, key, func(s health.State) health.State { return s.SaidGone(rules, o.Err, now) })
	case o.Class == outcome.Throttled:
		err = u.throttled(ctx, j.host, o)
	default:
		if u.d.Trial {
			err = u.judge(ctx, j)
		}
		err = errors.Join(err, u.hosts.observe(ctx, j.target, o))
	}
	if err != nil {
		u.Log.Warn("what was learnt of a host could not be saved", "host", j.host, "error", err)
	}
}

// judge ends the trial of the server that j was released to try.
func (u *unit) judge(ctx context.Context, j *job) error {
	s, _ := u.hosts.stance(j.target, u.Now())
	if !s.Trying() {
		return nil
	}
	o, rules := j.out, u.Rules
	return u.hosts.change(ctx, s.Key, func(s health.State) health.State {
		switch {
		case o.Unattempted:
			return s.TrialVoid(rules, u.Now())
		case o.HostFault():
			return s.TrialFailed(rules, o.Reason, o.Err, u.Now())
		}
		return s.TrialPassed(rules, u.Now())
	})
}

// void asks for another trial if one has ended without deciding: what was sent
// to try the server was cancelled, say, or had been delivered already.
func (v *invocation) void(ctx context.Context, t activity.Target) error {
	if err := v.hosts.loadFor(ctx, false, []activity.Target{t}); err != nil {
		return err
	}
	s, _ := v.hosts.stance(t, v.Now())
	if !s.Trying() {
		return nil
	}
	return v.hosts.change(ctx, s.Key, func(s health.State) health.State { return s.TrialVoid(v.Rules, v.Now()) })
}

// report logs and counts an attempt.
func (u *unit) report(j *job) {
	u.Meter.Attempted(u.a, j.out, j.state)
	args := []any{
		"activity", u.a.ID, "type", u.a.Type, "target", j.target.Inbox, "host", j.host, "attempt", j.attempts,
		"state", j.state, "class", j.out.Class, "status", j.out.Status, "ms", j.out.Took.Milliseconds(),
	}
	if u.a.Job != "" {
		args = append(args, "job", u.a.Job)
	}
	if j.out.Class == outcome.Delivered {
		u.Log.Info("delivered", args...)
		return
	}
	args = append(args, "remaining", u.route.Policy.Left(j.attempts), "reason", j.out.Reason, "error", j.out.Err)
	u.Log.Warn("attempt failed", args...)
}
