package deliver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
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
	for host, js := range byHost {
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
func (u *unit) throttled(ctx context.Context, host string, o outcome.Outcome) error {
	now := u.Now()
	var limit ratelimit.Limit
	var err error
	if o.Status == http.StatusTooManyRequests && u.Limiter != nil {
		limit, err = u.Limiter.Learn(ctx, host, u.Hosts.Rate(host))
	}
	return errors.Join(err, u.Hosts.Change(ctx, circuit.HostKey(host), func(s circuit.State) circuit.State {
		s = s.Throttle(u.Rules, o.RetryAfter, o.Err, now)
		if !limit.InForce(now) || limit.Until.IsZero() {
			return s
		}
		return s.LearnRate(u.Rules, limit.PerMinute, limit.Until, now)
	}))
}
