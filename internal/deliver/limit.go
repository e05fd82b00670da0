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

// slotSlack is how long after its slot a delivery may still go without asking for
// another: a queue that lags does not park everything again.
const slotSlack = 2 * time.Minute

// hasSlot reports whether the rate limit has been asked for this attempt.
func (u *unit) hasSlot(j *job) bool {
	return !u.d.Slot.IsZero() && j.attempts == u.d.Attempts && u.Now().Sub(u.d.Slot) < slotSlack
}

// limit parks what is over the rate of its host: at once, and without a receive
// that waits for its turn. It is released at the rate.
func (u *unit) limit(ctx context.Context) error {
	if u.Limiter == nil {
		return nil
	}
	byHost := map[string][]*job{}
	for _, j := range u.jobs {
		if j.attempt && !u.hasSlot(j) && u.Hosts.State(circuit.HostKey(j.host)).Limited(u.Now()) > 0 {
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

// backlog reports whether others are being released to host at its rate: whoever
// comes now goes behind them, and takes no turn of theirs.
func (u *unit) backlog(host string) bool {
	s := u.Hosts.State(circuit.HostKey(host))
	return !u.a.Ordered() && u.route.Policy.Park && s.Parked && s.Settled(u.Now()).Phase == circuit.Recovering
}

// overLimit has a target wait for its turn: an unordered one for the releases of
// its host, an ordered one for a slot of its own, so that the others of its group
// go behind it. Without parking it waits on its queue until at.
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

// turn takes a slot under the rate limit of host, and returns when to come for it.
// If none is free as far ahead as slots are given, slot is zero and due is when to
// ask again.
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

// longestCrowded is how long a delivery stays away that found no place, or whose
// turn it was not.
const longestCrowded = 2 * time.Minute

// crowded sends a delivery back to its queue until it may be its turn. The more
// often it came in vain, the longer it stays away, and all come back at times of
// their own.
func (u *unit) crowded(j *job, note string) {
	wait := min(u.route.Policy.Wait(u.m.ReceiveCount, u.Random()), longestCrowded)
	j.next = u.Now().Add(u.jitter(wait))
	if j.out.RetryAfter.After(j.next) {
		j.next = j.out.RetryAfter
	}
	j.attempt, j.state, j.note, j.out = false, activity.Retrying, note, outcome.Outcome{}
}
