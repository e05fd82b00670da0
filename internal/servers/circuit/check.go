package circuit

import (
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
)

// Begin returns the state that the scheduled function saves before it takes a step. For
// the time of lease no other run takes the same step.
func (s State) Begin(r Rules, lease time.Duration, now time.Time) State {
	s.CheckAt = now.Add(lease)
	if s.Phase == Paused && s.Until.After(now) && s.Until.Before(s.CheckAt) {
		s.CheckAt = s.Until
	}
	return s.kept(r, now)
}

// CheckPassed says that the server answered a probe. If deliveries are parked, a trial
// decides; otherwise the circuit closes. No probe shows anything about an inbox, whose
// ordered deliveries wait under its host: if the next of them fails, this check has failed.
func (s State) CheckPassed(r Rules, now time.Time) State {
	if s.Phase != Unhealthy && s.Phase != Exhausted {
		return s
	}
	if !s.Parked && s.Wasteful(r) {
		return s.failed(r, s.Reason, s.Why, now) // only a delivery shows whether it accepts any
	}
	if !s.Parked {
		checks := max(s.Checks, s.Unproven) + 1
		if s = s.reopened(now); s.ofInbox() {
			s.Unproven = checks
		}
		return s.kept(r, now)
	}
	// Tried stays, so that inboxes whose trials failed at the last check are not tried
	// first again while other inboxes wait.
	s.Phase, s.Since, s.Trials = HalfOpen, now, 0
	s.CheckAt = now.Add(r.TrialTimeout)
	return s.kept(r, now)
}

// CheckFailed says that the server did not answer a probe.
func (s State) CheckFailed(r Rules, reason outcome.Reason, why string, now time.Time) State {
	if s.Phase != Unhealthy && s.Phase != Exhausted {
		return s
	}
	s.Trials = 0
	return s.failed(r, reason, why, now)
}

// OtherInbox says that a delivery to inbox is about to be parked. If the server answered
// the last probe and only a trial to another inbox failed, the fault may be that inbox's.
// So the daily check comes forward to Rules.CheckFirst from now, at most Rules.Checks
// times in an outage, which bounds what a server with many inboxes costs that takes nothing.
func (s State) OtherInbox(r Rules, inbox string, now time.Time) State {
	if !s.AnswersProbes() || s.TriedLately(inbox) > 0 || r.quick(s.Checks) || s.Checks > 2*r.Checks || s.spent(r) {
		return s
	}
	return s.Sooner(r, now.Add(r.CheckFirst), now)
}

// Works reports whether the server answered the last probe, and one of its inboxes accepted
// a delivery last and has failed none since: others that fail are at fault themselves, unless
// the reason is the host's own. Deliveries are sent then although the circuit is open.
// Otherwise somebody who can name many inboxes of a server that take nothing, such as its
// pages, would keep the server's users waiting until their deliveries are given up. The same
// holds during a check that tries others, which takes minutes: what is parked meanwhile waits
// for the next check.
func (s State) Works() bool {
	return s.Took != "" && !s.Lapsed && (s.AnswersProbes() || s.triesOthers())
}

// Spares reports whether a delivery to inbox is sent although the circuit is open: the server
// works. Where its budget has opened the circuit, or it is one for a signing key, only the inbox
// that accepted a delivery last is spared.
func (s State) Spares(r Rules, inbox string) bool {
	if s.ofSignedHost() {
		return s.TookLast(inbox) && !s.Lapsed
	}
	return !s.ofInbox() && s.Works() && (!s.Wasteful(r) || s.TookLast(inbox))
}

// triesOthers reports whether a check of an outage goes on of which no trial went to the
// inbox that accepted a delivery last. If a delivery to that inbox waited, the first one did.
func (s State) triesOthers() bool {
	return s.Phase == HalfOpen && !s.DownSince.IsZero() && s.Trials > 0 && !s.triedNow(s.Took)
}

// nextOfWorking is when a check comes that a success at now makes due. While the server works,
// successes go on, and each check tries deliveries that have failed. So the next check waits
// as long after the last one, which was at Since, as the outage was old then: there
// are about ten such checks in the first day of an outage, and then the daily ones.
func (s State) nextOfWorking(now time.Time) time.Time {
	if at := s.Since.Add(s.Since.Sub(s.DownSince)); s.Works() && at.After(now) {
		return at
	}
	return now
}

// Blames reports whether a failure is the fault of its inbox rather than of the server: it
// is for a reason that is not the host's own, and another inbox accepted a delivery last and
// has failed none since.
func (s State) Blames(inbox string, o outcome.Outcome) bool {
	return o.HostFault() && !ofHost(o.Reason) && s.Took != "" && !s.Lapsed && !s.TookLast(inbox)
}

// TookLast reports whether inbox is the one that accepted a delivery last.
func (s State) TookLast(inbox string) bool { return s.Took != "" && s.Took == inboxDigest(inbox) }

// took notes that inbox has accepted a delivery; "" changes nothing.
func (s State) took(inbox string) State {
	if inbox != "" {
		s.Took, s.Lapsed = inboxDigest(inbox), false
	}
	return s
}

// AnswersProbes reports whether the server answered the last probe, and only trials to some
// of its inboxes failed.
func (s State) AnswersProbes() bool { return s.Phase == Unhealthy && s.Trials > 0 }

// LeavesInboxes reports whether a delivery to an inbox with an open circuit waits for that
// circuit, although the server takes no deliveries: it answers probes, or is paused.
func (s State) LeavesInboxes() bool { return s.AnswersProbes() || s.DownSince.IsZero() }

func (s State) failed(r Rules, reason outcome.Reason, why string, now time.Time) State {
	s.Checks++
	s.Reason, s.Why = reason, clip(why)
	if s.DownSince.IsZero() {
		s.DownSince = now
	}
	phase := Unhealthy
	if now.Sub(s.DownSince) >= r.GiveUp {
		phase = Exhausted
	}
	if s.Phase != phase {
		s.Phase, s.Since = phase, now
	}
	s.CheckAt = time.Time{}
	if wait := s.untilCheck(r, s.Parked); wait > 0 {
		s.CheckAt = now.Add(wait)
		// The next check is at the give-up time, so that exhaustion is noticed at once
		// and not up to a day later.
		if end := s.DownSince.Add(r.GiveUp); now.Before(end) && end.Before(s.CheckAt) {
			s.CheckAt = end
		}
	}
	return s.kept(r, now)
}

// untilCheck is Rules.wait for a server whose budget may be spent.
func (s State) untilCheck(r Rules, parked bool) time.Duration {
	wait := r.wait(s.Checks, parked)
	if s.spent(r) && wait > 0 {
		return r.CheckSlow
	}
	return wait
}

// TrialSent says that a trial to an inbox was released; sole says that no delivery to another
// inbox was found that this check has not tried. If the trial's outcome does not come within Rules.TrialTimeout,
// another trial is released.
func (s State) TrialSent(r Rules, inbox string, sole bool, at Sweep, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	s = t
	s.Trials++
	s.Tried, s.Sole, s.Sweep, s.CheckAt = together(s.Tried, inboxDigest(inbox), mostTried), sole, at, now.Add(r.TrialTimeout)
	return s.kept(r, now)
}

// mostTried is how many inboxes Tried names: those of the quick checks of an outage.
const mostTried = 20

// TriedLately tells how lately a trial went to inbox: 0 if none of the last ones did, and
// more the later it was.
func (s State) TriedLately(inbox string) int { return s.triedLately(inboxDigest(inbox)) }

func (s State) triedLately(digest string) int {
	return slices.Index(strings.Fields(s.Tried), digest) + 1
}

// TriedNow reports whether a trial of the present check went to inbox.
func (s State) TriedNow(inbox string) bool { return s.triedNow(inboxDigest(inbox)) }

func (s State) triedNow(digest string) bool {
	lately := s.triedLately(digest)
	return lately > 0 && lately > len(strings.Fields(s.Tried))-s.Trials
}

// TrialPassed says that the server accepted the trial: the recovery begins. took is the
// inbox, if it has accepted the delivery; "" if its answer shows only that it works.
func (s State) TrialPassed(r Rules, took string, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	s = t.took(took)
	s = s.reopened(now)
	s.Throttles, s.Unproven, s.Ramp = 0, 0, r.rampAfter(r.Ramp[0])
	if took != "" {
		s.Vain, s.VainSince = 0, time.Time{}
	}
	return s.kept(r, now)
}

// TrialAnswered begins the recovery, too, after an answer that is about the signing key of
// the trial and shows nothing about others, such as a 401. The next outage or pause goes on
// from the counts of the present one unless the server accepts something before: otherwise
// a 401 now and then would make a server that takes none cost the quick checks each time.
func (s State) TrialAnswered(r Rules, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	throttles, checks := t.Throttles, max(t.Checks, t.Unproven)
	s = t.TrialPassed(r, "", now)
	s.Throttles, s.Unproven = throttles, checks
	return s
}

// TrialFailed says that the trial failed, which counts as a failed check. The host has
// answered a probe just before, so the inbox may be broken and not the host, unless the
// reason is the host's own. So up to Rules.Trials trials are made, each to another inbox,
// before the check counts as failed. It counts as failed with the first trial after which no
// other inbox is left to try: a delivery is tried once in a check.
func (s State) TrialFailed(r Rules, reason outcome.Reason, why string, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	s = t
	if s.Took != "" && strings.HasSuffix(s.Tried, s.Took) {
		s.Lapsed = true
	}
	if !ofHost(reason) && s.Trials < r.Trials && !s.Sole && !s.ofInbox() && !s.spent(r) {
		return s.TrialVoid(r, now)
	}
	return s.failed(r, reason, why, now)
}

// TrialThrottled says that the inbox of a trial asked for a pause until a time. That counts
// for this inbox only, so up to Rules.Trials trials are made, each to another inbox, before
// the server is paused again. Only a shared inbox says for how long.
func (s State) TrialThrottled(r Rules, shared bool, until time.Time, why string, now time.Time) State {
	t := s.Settled(now)
	switch {
	case t.Phase != HalfOpen:
		return s
	case t.ofSignedHost():
		return s.TrialAnswered(r, now) // the pause is the inbox's, whatever the key
	case t.ofInbox():
	case !t.Sole && t.Trials < r.Trials:
		return t.TrialVoid(r, now)
	case !shared:
		until = now.Add(r.throttled(t.Throttles + 1))
	}
	return t.Throttle(r, until, why, now)
}

// TrialVoid says that the trial was not made, so another trial is due now.
func (s State) TrialVoid(r Rules, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	s = t
	s.CheckAt = now
	return s.kept(r, now)
}

// Postpone moves the next step to a later time without counting a check.
func (s State) Postpone(r Rules, until, now time.Time) State {
	s.CheckAt = until
	return s.kept(r, now)
}

// Sooner moves the next step forward, if it is later than at.
func (s State) Sooner(r Rules, at, now time.Time) State {
	if s.CheckAt.IsZero() || s.CheckAt.After(at) {
		s.CheckAt = at
		return s.kept(r, now)
	}
	return s
}

// Idle says that no step is due for the server.
func (s State) Idle(r Rules, now time.Time) State {
	s = s.Settled(now)
	s.CheckAt = time.Time{}
	return s.kept(r, now)
}
