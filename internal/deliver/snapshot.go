package deliver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// snapshot is what a verdict about j depends on, as this process knows it now.
func (e *Engine) snapshot(u *unit, j *job) verdict.Snapshot {
	now := e.Now()
	s := verdict.Snapshot{
		Now: now, Rules: &e.Rules, Policy: &u.route.Policy, Random: [2]float64{e.Random(), e.Random()},
		Delivery: verdict.Delivery{
			Ordered: u.a.Ordered(), Trial: u.d.Trial, Generation: u.d.Generation, Receives: u.Received.ReceiveCount,
			Since: u.since(), Revive: u.d.Revive, Disposable: u.route.Quiet, Bodiless: u.a.Body == "",
		},
	}
	of := &s.Servers
	of.By, of.Decision = e.Hosts.Decision(j.keys, now)
	if of.Host = of.By; of.Host.Key != j.keys.Host {
		of.Host = e.Hosts.State(j.keys.Host)
	}
	if of.Decision == circuit.Wait {
		of.Inbox = e.Hosts.State(j.keys.Inboxes[0])
	}
	return s
}

func (j *job) named() verdict.Target {
	return verdict.Target{Inbox: j.target.Inbox, HostKey: j.keys.Host, InboxKey: j.keys.Inboxes[0], HostSignedKey: j.keys.Inboxes[1], SignedKey: j.keys.Inboxes[2], Tries: j.tries()}
}

type seen struct {
	j *job
	s verdict.Snapshot
}

func (n *seen) judge() { n.j.verdict = verdict.Decide(&n.s, n.j.named()) }

// look judges each job by the states of its servers and the order of its group. It returns
// those jobs, with their snapshots, about which more has to be looked up.
func (v *invocation) look(ctx context.Context, u *unit) (open []seen, err error) {
	first := v.snapshot(u, u.jobs[0])
	dies := first.Delivery.Bodiless || first.Overdue()
	revives := dies && first.ReviveUntil().After(first.Now)
	var read map[string]circuit.State
	if u.route.Policy.Circuit && (!dies || revives) {
		fresh := !dies && (u.a.Ordered() || u.d.Trial)
		if read, err = v.Hosts.LoadFor(ctx, fresh, u.keys()...); err != nil {
			return nil, err
		}
	}
	for _, j := range u.jobs {
		n := seen{j, v.snapshot(u, j)}
		n.judge()
		if u.a.Ordered() && (j.due() || u.leaves(j)) {
			if n.s.Found.Behind, err = v.behind(ctx, u, j, read); err != nil {
				return nil, err
			}
			n.judge()
		}
		if !verdict.State(j.verdict).Final() && (v.coalesces(u) || n.s.Servers.Host.Limited(n.s.Now) > 0) {
			open = append(open, n)
		}
	}
	return open, nil
}

// The FIFO queue keeps ordered deliveries in order, retries included: it hands out one message
// of a group at a time. It does not know of parked ones. So a parked delivery keeps its spot
// until it is final. Each delivery of a group looks for a parked predecessor, in the table and
// never in a cache, and parks behind it. A delivery that is final releases the next one
// (lots.leave).

// behind returns the group in which an earlier delivery is parked: that of j's host, or that of
// j's inbox, to which j moves once it is the first of its host's. read has the states that were
// read for this unit.
func (e *Engine) behind(ctx context.Context, u *unit, j *job, read map[string]circuit.State) (verdict.Group, error) {
	key := circuit.HostKey(j.host)
	if !read[key].Parked {
		return verdict.NoGroup, nil
	}
	d := u.one(j, u.d.Generation)
	for group := verdict.HostGroup; group <= verdict.InboxGroup; group++ {
		if d.Alone = group == verdict.InboxGroup; u.d.Alone && !d.Alone {
			continue
		}
		before, err := e.Lot.Store.ParkedBefore(ctx, key, d.Group(u.a), u.a.Sequence)
		if err != nil {
			return verdict.NoGroup, fmt.Errorf("look for what is parked before: %w", err)
		}
		if before {
			return group, nil
		}
	}
	return verdict.NoGroup, nil
}

func (e *Engine) coalesces(u *unit) bool {
	return e.Coalesce != nil && u.a.Coalesce == activity.CoalesceLatest
}

func (e *Engine) lookForNewer(ctx context.Context, u *unit, open []seen) error {
	if !e.coalesces(u) {
		return nil
	}
	ts := make([]activity.Target, len(open))
	for i, n := range open {
		ts[i] = n.j.target
	}
	found, err := e.Coalesce.Needless(ctx, u.a, ts)
	if err != nil {
		return fmt.Errorf("look for redundant deliveries: %w", err)
	}
	for i, newer := range found {
		open[i].s.Found.Newer = newer
	}
	return nil
}

// checkLimits reserves rate limits of hosts for the deliveries that would be attempted. Those
// over a limit are parked at once, so that no receive waits; the scheduled function releases
// them at the rate.
func (e *Engine) checkLimits(ctx context.Context, u *unit, open []seen) error {
	if e.Limiter == nil {
		return nil
	}
	byHost := map[string][]*seen{}
	for i := range open {
		n := &open[i]
		if !n.j.due() || n.s.OnTrial() || n.s.Servers.Host.Limited(n.s.Now) == 0 {
			// A trial needs no slot. Parked under its host to wait for one, it would leave the
			// lot of its inbox empty, which closes the inbox's circuit.
			continue
		}
		if ok, err := e.hasSlot(ctx, u, n.j); err != nil {
			return err
		} else if !ok {
			byHost[n.j.host] = append(byHost[n.j.host], n)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		if err := e.checkLimit(ctx, u, host, byHost[host]); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) checkLimit(ctx context.Context, u *unit, host string, there []*seen) error {
	times := make([]time.Time, len(there))
	if s := &there[0].s; e.releases(u, s.Servers.Host, s.Now) {
		for i := range times {
			times[i] = s.Now.Add(e.Rules.RampEvery)
		}
	} else {
		var err error
		if times, err = e.Limiter.Reserve(ctx, host, len(there)); err != nil {
			return fmt.Errorf("reserve rate of %s: %w", host, err)
		}
	}
	over := slices.IndexFunc(times, func(at time.Time) bool { return at.After(there[0].s.Now) })
	if over < 0 {
		return nil
	}
	soon, err := e.soonest(ctx, u, host, there[0].s, len(there)-over)
	if err != nil {
		return err
	}
	for i, n := range there[over:] {
		found := &n.s.Found
		found.NotBefore = times[over+i]
		if i < len(soon) {
			found.Slot = soon[i]
			continue
		}
		if !u.a.Ordered() || !u.route.Policy.Park {
			continue
		}
		if found.Slot, found.Due, err = e.takeSlot(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// soonest books the free slots before the next release for up to n targets over the limit,
// which wait on their queue. With releases alone a host would get almost nothing in the first
// minute. Targets behind parked deliveries get none.
func (e *Engine) soonest(ctx context.Context, u *unit, host string, s verdict.Snapshot, n int) ([]time.Time, error) {
	if u.a.Ordered() || u.single() || !u.route.Policy.Park || e.releases(u, s.Servers.Host, s.Now) {
		return nil, nil
	}
	slots, err := e.Limiter.Book(ctx, host, n, e.Rules.RampEvery)
	if err != nil {
		return nil, fmt.Errorf("reserve rate of %s: %w", host, err)
	}
	return slots, nil
}

// slotSlack is how long after its time a slot may be used, so that a queue that lags does not
// park everything again.
const slotSlack = 2 * time.Minute

// hasSlot reports whether a delivery has a slot. A delivery that is too late for its own gets
// another: parked again, it would never get through while its queue lags. The slot is at most
// slotSlack ahead; releases of parked deliveries get fewer meanwhile.
func (e *Engine) hasSlot(ctx context.Context, u *unit, j *job) (bool, error) {
	if u.d.Slot.IsZero() || j.attempts != u.d.Attempts {
		return false, nil
	}
	if e.Now().Sub(u.d.Slot) < slotSlack {
		return true, nil
	}
	slots, err := e.Limiter.Book(ctx, j.host, 1, slotSlack)
	if err != nil {
		return false, fmt.Errorf("reserve rate of %s: %w", j.host, err)
	}
	return len(slots) > 0, nil
}

// releases reports whether parked deliveries are being released to a host. New ones are then
// parked behind them.
func (e *Engine) releases(u *unit, host circuit.State, now time.Time) bool {
	return !u.a.Ordered() && u.route.Policy.Park && host.Parked && host.Settled(now).Phase == circuit.Recovering
}

func (e *Engine) takeSlot(ctx context.Context, host string) (slot, due time.Time, err error) {
	slot, ok, err := e.slots.Slot(ctx, host)
	if err != nil {
		return slot, due, fmt.Errorf("reserve rate of %s: %w", host, err)
	}
	if !ok {
		return time.Time{}, e.Now().Add(ratelimit.Horizon), nil
	}
	return slot, slot, nil
}
