package healthcheck

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// ProbeID names one check of an outage in logs: the server, and how many checks have failed
// before.
func ProbeID(s circuit.State) string { return fmt.Sprintf("%s_%d", s.Key, s.Checks) }

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
	if err := r.followUp(ctx, before, after, o); err != nil || !after.Down() || !after.Parked {
		return err
	}
	if ended == 0 && after.Checks <= r.Rules.Checks {
		return nil
	}
	return r.ifEmpty(ctx, after, func(s circuit.State) circuit.State {
		if ended == 0 || after.Checks <= r.Rules.Checks {
			return s // an early check would use up one of the quick ones
		}
		wait := r.Rules.CheckFirst
		if ordered > 0 {
			// Ordered ones stay in the lot until they are final, so the lot may be empty soon.
			wait = max(wait, endedLook)
		}
		return s.Sooner(r.Rules, r.Now().Add(wait), r.Now())
	})
}

// endedLook is when a server that is down is checked again after overdue ordered deliveries
// were released. If the queue lags, these are released once more.
const endedLook = time.Hour

func (r *Runner) probe(ctx context.Context, host string) outcome.Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, r.ProbeTimeout, outcome.ErrTimeout)
	defer cancel()
	r.Meter.Counted("Probes", 1)
	return r.Prober.Probe(ctx, host)
}

// followUp logs the result of a check and takes the next step.
func (r *Runner) followUp(ctx context.Context, before, after circuit.State, o outcome.Outcome) error {
	args := []any{
		"server", after.Key, "probe", ProbeID(before), "phase", after.Phase, "status", o.Status,
		"reason", o.Reason, "error", o.Err, "parked", after.Parked, "next", after.CheckAt,
	}
	switch {
	case after.Phase == circuit.HalfOpen:
		r.Log.InfoContext(ctx, "a server answers again: one parked delivery will decide", args...)
		return r.trial(ctx, after)
	case !after.Down():
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

// checkInbox takes the next step for an inbox with a circuit of its own. Its host answers, so
// only a trial shows anything. While the host is down, the inbox waits for it.
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

// pausedLook is how often an inbox of a paused host is looked at.
const pausedLook = time.Hour

// afterHost postpones an inbox's step until after that of its host, which is down. If the host
// answers probes, other inboxes keep it down; if no step of the host is due, it is not checked any
// more. In both cases one delivery to this inbox moves to the host's lot, as a candidate for the
// host's trial. All of them do if the budget has opened the host's circuit and the host refuses
// what is on trial.
func (r *Runner) afterHost(ctx context.Context, s, host circuit.State) error {
	if host.Trying(r.Now()) && host.Wasteful(r.Rules) {
		_, err := r.change(ctx, s, func(s circuit.State) circuit.State { return s.Unproved(r.Rules, r.Now()) })
		return err
	}
	if host.AnswersProbes() || host.Down() && host.CheckAt.IsZero() {
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
		// Nothing is sent before the pause ends, but an operator may end it.
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

// look probes a server that may be gone, or is. A 410 confirms that; no answer leaves it as it is.
func (r *Runner) look(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.lease(), r.Now()) })
	if !mine {
		return err
	}
	host, _ := circuit.HostOf(s.Key)
	o := r.probe(ctx, host)
	gone := o.Status == http.StatusGone || s.Phase == circuit.Gone && o.Status == 0
	after, err := r.change(ctx, s, func(s circuit.State) circuit.State {
		if gone {
			return s.ConfirmedGone(r.Rules, s.Why, r.Now())
		}
		return s.NotGone(r.Rules, r.Now())
	})
	if err != nil {
		return err
	}
	r.Log.InfoContext(ctx, "checked whether a server is gone", "server", s.Key, "status", o.Status, "phase", after.Phase, "until", after.Until)
	return nil
}
