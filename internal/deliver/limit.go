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
)

// patience is how long a delivery waits on the queue for its turn under a rate
// limit. Those whose turn is later wait in the lot, which costs nothing, and are
// released at the rate.
const patience = time.Minute

// limit makes deliveries wait that are over the rate of their host.
func (u *unit) limit(ctx context.Context) error {
	if u.Limiter == nil {
		return nil
	}
	byHost := map[string][]*job{}
	for _, j := range u.jobs {
		if j.attempt && u.Hosts.State(circuit.HostKey(j.host)).Limited(u.Now()) > 0 {
			byHost[j.host] = append(byHost[j.host], j)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		js := byHost[host]
		times, err := u.Limiter.Reserve(ctx, host, len(js))
		if err != nil {
			return fmt.Errorf("reserve rate of %s: %w", host, err)
		}
		for i, j := range js {
			if times[i].After(u.Now()) {
				u.takeTurn(j, times[i])
			}
		}
	}
	return nil
}

// takeTurn has a target wait until at.
func (u *unit) takeTurn(j *job, at time.Time) {
	j.attempt, j.note = false, "waits for the rate limit of its server"
	if u.route.Policy.Park && !u.a.Ordered() && u.delayed(at) > patience {
		j.state, j.lot = activity.Parked, circuit.HostKey(j.host)
		return
	}
	j.state, j.next = activity.Retrying, at
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
