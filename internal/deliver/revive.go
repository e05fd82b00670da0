package deliver

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// A delivery that dies because its server is down comes back to life when the server does,
// within Rules.Revive. The dead letter waits for that like a spot in the server's lot, and
// by the same steps: first the server's state says that there may be one, then the dead
// letter is written, then the state is read again. If the server accepts deliveries by
// then, the scheduled function may have looked for dead letters before this one was there,
// so another look is made due.

// mayComeBack notes which of the jobs die because their server is down. Requests to
// webhooks stay dead: a webhook is disabled by the time that its requests die, and a
// disabled one refuses them for good.
func (u *unit) mayComeBack(ctx context.Context) error {
	policy := u.route.Policy
	if u.Rules.Revive == 0 || !policy.Circuit || !policy.Park || u.route.Quiet {
		return nil
	}
	now := u.Now()
	until := u.d.Revive
	if until.IsZero() {
		until = now.Add(u.Rules.Revive)
	}
	if !until.After(now) {
		return nil
	}
	if _, err := u.Hosts.LoadFor(ctx, false, u.places()...); err != nil {
		return err
	}
	for _, j := range u.jobs {
		if u.Hosts.State(circuit.HostKey(j.host)).Revivable(now) {
			j.revive = until
		}
	}
	return nil
}

// expectReturn says to the servers of those who die that they are to be revived.
func (u *unit) expectReturn(ctx context.Context) error {
	return u.eachReturn(func(key string, until time.Time) error {
		known := u.Hosts.State(key)
		if known.Died(u.Rules, until, u.Now()) == known {
			return nil
		}
		err := u.Hosts.Change(ctx, key, func(s circuit.State) circuit.State { return s.Died(u.Rules, until, u.Now()) })
		if err != nil {
			return fmt.Errorf("expect %s back: %w", key, err)
		}
		return nil
	})
}

// lookForReturn looks whether servers are back since their dead letters were begun.
func (u *unit) lookForReturn(ctx context.Context) error {
	return u.eachReturn(func(key string, until time.Time) error {
		err := u.Hosts.Change(ctx, key, func(s circuit.State) circuit.State { return s.Buried(u.Rules, until, u.Now()) })
		if err != nil {
			return fmt.Errorf("look whether %s is back: %w", key, err)
		}
		return nil
	})
}

// eachReturn calls do for each server of jobs that are to be revived.
func (u *unit) eachReturn(do func(key string, until time.Time) error) error {
	done := map[string]bool{}
	for _, j := range u.jobs {
		key := circuit.HostKey(j.host)
		if j.state != activity.Dead || j.revive.IsZero() || done[key] {
			continue
		}
		done[key] = true
		if err := do(key, j.revive); err != nil {
			return err
		}
	}
	return nil
}
