package deliver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// slotSlack is how long after its slot a delivery may still use it, so that a queue that
// lags does not lead to parking everything again.
const slotSlack = 2 * time.Minute

// hasSlot reports whether the rate limit has been asked for this attempt.
func (u *unit) hasSlot(j *job) bool {
	return !u.d.Slot.IsZero() && j.attempts == u.d.Attempts && u.Now().Sub(u.d.Slot) < slotSlack
}

// onTrial reports whether j decides about a circuit. It goes without a slot: if it were
// parked under its host to wait for one, the lot of its inbox would be empty and be closed,
// and with it the inbox's circuit, whose checks would begin anew again and again.
func (u *unit) onTrial(j *job) bool {
	if !u.d.Trial {
		return false
	}
	s, _ := u.decision(j.place)
	return s.Trying(u.Now())
}

// lateSlot reports whether a delivery that has come too late for its slot may use another.
// If it were parked again, a queue that steadily lags would never let it through. The new
// slot is at most slotSlack ahead, so that all deliveries together keep to the rate: the
// releases of parked deliveries get fewer slots meanwhile.
func (u *unit) lateSlot(ctx context.Context, j *job) (bool, error) {
	if u.d.Slot.IsZero() || j.attempts != u.d.Attempts {
		return false, nil
	}
	slots, err := u.Limiter.Book(ctx, j.host, 1, slotSlack)
	if err != nil {
		return false, fmt.Errorf("reserve rate of %s: %w", j.host, err)
	}
	return len(slots) > 0, nil
}

// limit parks deliveries over their host's rate limit, at once, so that no receive waits
// for a turn. The scheduled function releases them at the rate.
func (u *unit) limit(ctx context.Context) error {
	if u.Limiter == nil {
		return nil
	}
	byHost := map[string][]*job{}
	for _, j := range u.jobs {
		if !j.attempt || u.onTrial(j) || u.hasSlot(j) || u.Hosts.State(circuit.HostKey(j.host)).Limited(u.Now()) == 0 {
			continue
		}
		if ok, err := u.lateSlot(ctx, j); err != nil {
			return err
		} else if !ok {
			byHost[j.host] = append(byHost[j.host], j)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		js := byHost[host]
		times := make([]time.Time, len(js))
		if u.backlog(host) {
			for i := range times {
				times[i] = u.Now().Add(u.Rules.RampEvery)
			}
		} else {
			var err error
			if times, err = u.Limiter.Reserve(ctx, host, len(js)); err != nil {
				return fmt.Errorf("reserve rate of %s: %w", host, err)
			}
		}
		for i, j := range js {
			if !times[i].After(u.Now()) {
				continue
			}
			if err := u.overLimit(ctx, j, times[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// backlog reports whether parked deliveries are being released to host at its rate. New
// deliveries are then parked behind, and take none of their slots.
func (u *unit) backlog(host string) bool {
	s := u.Hosts.State(circuit.HostKey(host))
	return !u.a.Ordered() && u.route.Policy.Park && s.Parked && s.Settled(u.Now()).Phase == circuit.Recovering
}

// overLimit parks a target over the rate limit. An unordered target waits for the releases
// of its host; an ordered one takes a slot of its own, and the others of its group park
// behind it. If the protocol does not park, the target waits on its queue until at.
func (u *unit) overLimit(ctx context.Context, j *job, at time.Time) error {
	j.attempt, j.note = false, "waits for the rate limit of its server"
	if !u.route.Policy.Park {
		j.state, j.next = activity.Retrying, at
		return nil
	}
	j.state, j.lot = activity.Parked, circuit.HostKey(j.host)
	if !u.a.Ordered() {
		return nil
	}
	slot, due, err := u.turn(ctx, j.host)
	if err != nil {
		return err
	}
	j.hold, j.slot, j.due, j.next = true, slot, due, due
	return nil
}

// turn takes a slot under the rate limit of host; due is the slot's time. If no slot is
// free within ratelimit.Horizon, slot is zero, and due is when to ask again.
func (v *invocation) turn(ctx context.Context, host string) (slot, due time.Time, err error) {
	slot, ok, err := v.slots.Slot(ctx, host)
	if err != nil {
		return slot, due, fmt.Errorf("reserve rate of %s: %w", host, err)
	}
	if !ok {
		return time.Time{}, v.Now().Add(ratelimit.Horizon), nil
	}
	return slot, slot, nil
}

// throttled pauses a host that asked for it, and learns its rate if it said that
// there were too many requests.
func (v *invocation) throttled(host string, o outcome.Outcome) {
	now := v.Now()
	l := cache.Lesson{Kind: "throttled", Apply: func(s circuit.State) circuit.State {
		return s.Throttle(v.Rules, o.RetryAfter, o.Err, now)
	}}
	if o.Status == http.StatusTooManyRequests && v.Limiter != nil {
		l.Before = func(ctx context.Context) (func(circuit.State) circuit.State, error) {
			limit, err := v.Limiter.Learn(ctx, host, v.Hosts.Rate(host))
			return func(s circuit.State) circuit.State {
				if !limit.InForce(now) || limit.Until.IsZero() {
					return s
				}
				return s.LearnRate(v.Rules, limit.PerMinute, limit.Until, now)
			}, err
		}
	}
	v.Hosts.Learn(circuit.HostKey(host), l)
}

// longestCrowded is after how long, at most, a delivery comes back that found no place in
// the limiter.
const longestCrowded = 2 * time.Minute

// crowded sends a delivery that found no place back to its queue. The wait grows with the
// number of receives, and has jitter, so that deliveries do not come back all at once.
func (u *unit) crowded(j *job, note string) {
	wait := min(u.route.Policy.Wait(u.m.ReceiveCount, u.Random()), longestCrowded)
	j.next = u.Now().Add(u.jitter(wait))
	if j.out.RetryAfter.After(j.next) {
		j.next = j.out.RetryAfter
	}
	u.comeBack(j, j.next, note)
}

// comeBack has a delivery come back at a time, without an attempt.
func (u *unit) comeBack(j *job, at time.Time, note string) {
	j.next = at
	j.attempt, j.state, j.note, j.out = false, activity.Retrying, note, outcome.Outcome{}
	if u.a.Ordered() && u.route.Policy.Park {
		// On the ordered queue each receive counts, so the delivery waits in its lot.
		j.state, j.lot, j.hold, j.due = activity.Parked, circuit.HostKey(j.host), true, j.next
	}
}
