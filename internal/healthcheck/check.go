package healthcheck

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// ProbeID is the name of one check of an outage, in logs: the server, and how many
// checks have failed before.
func ProbeID(s circuit.State) string { return fmt.Sprintf("%s_%d", s.Key, s.Checks) }

// check asks whether a server that is down is back.
func (r *Runner) check(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.leaseOf(s), r.Now()) })
	if !mine {
		return err
	}
	ended, ordered, err := r.endOverdue(ctx, s)
	if err != nil {
		return err
	}
	host, whole := circuit.HostOf(s.Key)
	if !whole {
		return r.checkInbox(ctx, s, host)
	}
	o := r.probe(ctx, host)
	before, after, err := circuit.ChangeFrom(ctx, r.Servers, s, func(s circuit.State) circuit.State {
		switch {
		case o.Class == outcome.Retry && o.Try == outcome.Untried:
			return s.Postpone(r.Rules, r.Now().Add(r.Rules.CheckFirst), r.Now())
		case o.Try != outcome.Made || o.HostFault():
			return s.CheckFailed(r.Rules, o.Reason, o.Err, r.Now())
		}
		return s.CheckPassed(r.Rules, r.Now())
	})
	if err != nil {
		return err
	}
	if err := r.followUp(ctx, before, after, o); err != nil || !down(after) || !after.Parked {
		return err
	}
	if ended == 0 && after.Checks <= r.Rules.Checks {
		return nil
	}
	return r.ifEmpty(ctx, after, func(s circuit.State) circuit.State {
		if ended == 0 || after.Checks <= r.Rules.Checks {
			return s // a check that came early would use up one of the quick ones
		}
		wait := r.Rules.CheckFirst
		if ordered > 0 {
			// They keep their spots until they are final, so the lot may be empty soon.
			wait = max(wait, endedLook)
		}
		return s.Sooner(r.Rules, r.Now().Add(wait), r.Now())
	})
}

// endedLook is when a server that is down is looked at again, before the next daily check,
// after ordered deliveries to it were released because they are too old. What a queue that
// lags has not come to by then is released once more, and the queue takes that for something
// new.
const endedLook = time.Hour

func (r *Runner) probe(ctx context.Context, host string) outcome.Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, r.ProbeTimeout, outcome.ErrTimeout)
	defer cancel()
	r.Meter.Counted("Probes", 1)
	return r.Prober.Probe(ctx, host)
}

// followUp reports the end of a check and goes on with what it led to.
func (r *Runner) followUp(ctx context.Context, before, after circuit.State, o outcome.Outcome) error {
	args := []any{
		"server", after.Key, "probe", ProbeID(before), "phase", after.Phase, "status", o.Status,
		"reason", o.Reason, "error", o.Err, "parked", after.Parked, "next", after.CheckAt,
	}
	switch {
	case after.Phase == circuit.HalfOpen:
		r.Log.InfoContext(ctx, "a server answers again: one parked delivery will decide", args...)
		return r.trial(ctx, after)
	case !down(after):
		r.Log.InfoContext(ctx, "a server answers again", args...)
	case after.Phase == circuit.Exhausted && before.Phase != circuit.Exhausted:
		r.Log.ErrorContext(ctx, "a server is exhausted: it has been down for the whole give-up time", args...)
		r.Meter.Counted("Exhausted", 1)
	case r.Rules.LastQuick(after.Checks):
		r.Log.WarnContext(ctx, "the quick checks of a server are exhausted", args...)
	default:
		r.Log.InfoContext(ctx, "a server is still down", args...)
	}
	return nil
}

// checkInbox takes the next step for an inbox with a circuit of its own. The inbox's
// host answers, so a probe of the host would show nothing about the inbox, and a trial
// has to decide. While the host is down, the inbox waits for the host.
func (r *Runner) checkInbox(ctx context.Context, s circuit.State, host string) error {
	_, h, err := circuit.Change(ctx, r.Servers, circuit.HostKey(host), func(h circuit.State) circuit.State {
		return h.InboxFault(r.Rules, r.Now())
	})
	if err != nil {
		return err
	}
	if h.Decision(r.Now()) == circuit.Wait {
		return r.afterHost(ctx, s, h)
	}
	before, after, err := circuit.ChangeFrom(ctx, r.Servers, s, func(s circuit.State) circuit.State {
		return s.CheckPassed(r.Rules, r.Now())
	})
	if err != nil {
		return err
	}
	return r.followUp(ctx, before, after, outcome.Outcome{Class: outcome.Delivered})
}

// pausedLook is how often an inbox is looked at whose host is paused.
const pausedLook = time.Hour

// afterHost postpones an inbox's step until after the next step of its host, which is
// down. If the host answers probes, other inboxes hold it, and would hold this one until
// they are given up. If no step of the host is due, nothing waits in its lot, and it would
// be checked no more. In both cases one delivery to this inbox goes over to the host's lot,
// where it has its turn to be the host's trial.
func (r *Runner) afterHost(ctx context.Context, s, host circuit.State) error {
	if host.AnswersProbes() || down(host) && host.CheckAt.IsZero() {
		ps, _, _, err := r.Lot.Next(ctx, s.Key, circuit.Sweep{}, 1)
		if err != nil {
			return err
		}
		if err := r.send(ctx, ps, parking.Release{Once: true}); err != nil {
			return err
		}
	}
	now := r.Now()
	until := now.Add(r.Rules.CheckFirst)
	if later := host.CheckAt.Add(r.Rules.RampEvery); later.After(until) {
		until = later
	}
	if host.Phase == circuit.Paused {
		// Nothing is sent before the pause ends, but it may be ended by an operator.
		until = now.Add(pausedLook)
		if !host.Until.IsZero() && host.Until.Before(until) {
			until = host.Until.Add(r.Rules.RampEvery)
		}
	}
	_, _, err := circuit.ChangeFrom(ctx, r.Servers, s, func(s circuit.State) circuit.State {
		return s.Postpone(r.Rules, until, now)
	})
	return err
}
