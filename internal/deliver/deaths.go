package deliver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/deliver/verdict"
	"fedpost/internal/servers/circuit"
)

// A delivery that dies because its server is down is revived when the server is back, within
// Rules.Revive. The steps are those of parking: the server's state is marked, the dead letter is
// written, and the state is read again. If the server accepts deliveries by then, the scheduled
// function may have looked too early, so another look is made due.

// deaths is the part of executor that gives deliveries up.
type deaths struct{ *Engine }

func (d deaths) add(ctx context.Context, u *unit) error {
	var ds []Death
	until := map[string]time.Time{} // by key of the server
	for _, j := range u.jobs {
		is, dead := j.verdict.(verdict.Dead)
		if !dead {
			continue
		}
		r := u.recipient(j, d.Now())
		ds = append(ds, Death{Activity: u.a, Recipient: r, Reason: is.Reason, Revive: is.Revive})
		if !is.Revive.IsZero() {
			until[circuit.HostKey(j.host)] = is.Revive
		}
		d.Log.ErrorContext(ctx, "a delivery is given up", "activity", u.a.ID, "target", j.target.Inbox, "host", j.host,
			"attempts", j.attempts, "tries", u.route.Policy.Tries, "reason", is.Reason, "status", r.LastStatus, "error", r.LastError)
	}
	if len(ds) == 0 {
		return nil
	}
	servers := slices.Sorted(maps.Keys(until))
	for _, key := range servers {
		if err := d.expect(ctx, key, until[key]); err != nil {
			return err
		}
	}
	if err := d.DeadLetters.Add(ctx, ds); err != nil {
		return fmt.Errorf("add dead letters: %w", err)
	}
	for _, key := range servers {
		err := d.Hosts.Change(ctx, key, func(s circuit.State) circuit.State { return s.DeathRecorded(d.Rules, until[key], d.Now()) })
		if err != nil {
			return fmt.Errorf("look whether %s is back: %w", key, err)
		}
	}
	d.Meter.Counted("Dead", len(ds))
	return nil
}

// expect marks a server for a later look at its dead deliveries.
func (d deaths) expect(ctx context.Context, key string, until time.Time) error {
	died := func(s circuit.State) circuit.State { return s.Died(d.Rules, until, d.Now()) }
	if known := d.Hosts.State(key); died(known) == known {
		return nil
	}
	if err := d.Hosts.Change(ctx, key, died); err != nil {
		return fmt.Errorf("expect %s back: %w", key, err)
	}
	return nil
}

// void asks for another trial if a trial ended without an attempt, for example because its
// delivery was cancelled.
func (d deaths) void(ctx context.Context, u *unit) error {
	keys := u.keysOf(u.d.Targets[0])
	if _, err := d.Hosts.LoadFor(ctx, false, keys); err != nil {
		return err
	}
	s, _ := d.Hosts.Decision(keys, d.Now())
	if !s.Trying(d.Now()) {
		return nil
	}
	return d.Hosts.Change(ctx, s.Key, func(s circuit.State) circuit.State { return s.TrialVoid(d.Rules, d.Now()) })
}
