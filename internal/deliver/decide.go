package deliver

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
)

// decide finds out which targets need no attempt, without claiming anything.
func (u *unit) decide(ctx context.Context) error {
	now := u.Now()
	if u.a.Body == "" {
		// No protocol has an activity without a body: the body was stored apart, and is lost.
		for _, j := range u.jobs {
			u.exhaust(ctx, j, "damaged", "the body of the activity is missing or damaged")
		}
		return nil
	}
	if !now.Before(u.giveUpAt()) {
		for _, j := range u.jobs {
			u.exhaust(ctx, j, "age", "not delivered within "+u.route.Policy.GiveUp.String())
		}
		return u.mayComeBack(ctx)
	}
	for _, j := range u.jobs {
		j.attempt = true
	}
	if u.route.Policy.Circuit {
		if err := u.look(ctx); err != nil {
			return err
		}
	}
	if err := u.needless(ctx); err != nil {
		return err
	}
	return u.limit(ctx)
}

// giveUpAt is when the delivery is too old.
func (u *unit) giveUpAt() time.Time { return u.dueSince().Add(u.route.Policy.GiveUp) }

// dueSince is when the delivery became due. The caller's delay does not count, nor does the
// time before a dead delivery was revived.
func (u *unit) dueSince() time.Time {
	begin := u.a.CreatedAt
	// An older message does not say when it became due; its record does, while it is kept.
	for _, later := range []time.Time{u.a.DueAt, u.known.Record.DueAt, u.d.Since} {
		if later.After(begin) {
			begin = later
		}
	}
	return begin
}

// look decides about each target by the state of its server.
func (u *unit) look(ctx context.Context) error {
	fresh := u.a.Ordered() || u.d.Trial
	read, err := u.Hosts.LoadFor(ctx, fresh, u.places()...)
	if err != nil {
		return err
	}
	for _, j := range u.jobs {
		if u.meet(j); j.attempt && u.a.Ordered() {
			if err := u.keepOrder(ctx, j, read); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *unit) places() []cache.Place {
	ps := make([]cache.Place, len(u.jobs))
	for i, j := range u.jobs {
		ps[i] = j.place
	}
	return ps
}

func (u *unit) targets() []activity.Target {
	ts := make([]activity.Target, len(u.jobs))
	for i, j := range u.jobs {
		ts[i] = j.target
	}
	return ts
}

// meet decides whether a target is attempted, parked or refused.
func (u *unit) meet(j *job) {
	s, decision := u.decision(j.place)
	switch {
	case decision == circuit.Refuse:
		j.attempt, j.state = false, activity.Failed
		j.out = outcome.Outcome{Class: outcome.Refused, Try: outcome.Untried, Err: refusal(s)}
	case decision == circuit.Wait && !(u.d.Trial && s.Trying(u.Now())) && !u.spared(j, s):
		j.attempt = false
		u.wait(j, s)
	}
}

// spared reports whether a target is attempted although the circuit of its host s
// is open, because s works and the inbox has not failed.
func (u *unit) spared(j *job, s circuit.State) bool {
	_, whole := circuit.HostOf(s.Key)
	return whole && s.Works() && u.Hosts.State(circuit.InboxKey(j.target.Inbox)).Accepts(u.Now())
}

// wait decides that a target is parked under the key of s, whose server does not accept
// deliveries now. An ordered target is always parked under its host, because the other
// deliveries of its group look for it there.
func (u *unit) wait(j *job, s circuit.State) {
	j.state, j.lot = activity.Parked, s.Key
	if of := u.Hosts.State(circuit.InboxKey(j.target.Inbox)); u.d.Generation == 0 && s.AnswersProbes() && !of.Accepts(u.Now()) {
		// In the lot of its inbox it is in the way of no other inbox. A released one is
		// parked under the host, to have its turn there.
		j.lot = of.Key
	}
	if u.a.Ordered() {
		j.lot = circuit.HostKey(j.host)
		if j.hold = j.lot != s.Key; j.hold {
			// The inbox is down and its host is not: try again after the inbox's next
			// check.
			j.due = u.Now().Add(u.Rules.CheckFirst)
			if s.CheckAt.After(u.Now()) {
				j.due = s.CheckAt.Add(u.Rules.RampEvery)
			}
			j.next = j.due
		}
	}
}

func refusal(s circuit.State) string {
	if s.Phase == circuit.Blocked {
		return "server is blocked: " + s.Why
	}
	return "server is gone: " + s.Why
}

// needless drops what the coalescer says need not be sent.
func (u *unit) needless(ctx context.Context) error {
	if u.Coalesce == nil || u.a.Coalesce != activity.CoalesceLatest {
		return nil
	}
	found, err := u.Coalesce.Needless(ctx, u.a, u.targets())
	if err != nil {
		return fmt.Errorf("look for redundant deliveries: %w", err)
	}
	for i, n := range found {
		j := u.jobs[i]
		if j.state == activity.Failed || j.state == activity.Dead {
			continue
		}
		if n.State == activity.Retrying {
			if j.attempt && !u.onTrial(j) {
				u.comeBack(j, n.Until, "waits for what may be under way to its inbox")
			}
			continue
		}
		j.attempt, j.lot, j.state, j.by = false, "", n.State, n.By
	}
	return nil
}
