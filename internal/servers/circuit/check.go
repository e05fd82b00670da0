package circuit

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

// Begin claims the step of a server: for the time of lease no other run takes it. The state is
// saved before the step.
func (s State) Begin(r Rules, lease time.Duration, now time.Time) State {
	s.CheckAt = now.Add(lease)
	if s.Phase == Paused && s.Until.After(now) && s.Until.Before(s.CheckAt) {
		s.CheckAt = s.Until
	}
	return s.kept(r, now)
}

// Probed reports whether the next step of a server makes a probe. None shows anything about an
// inbox.
func (s State) Probed() bool {
	_, whole := HostOf(s.Key)
	return whole && (s.Down() || s.Doubt || s.Phase == Gone && !s.Parked)
}

// Down reports whether the circuit is open until a check passes.
func (s State) Down() bool { return s.Phase == Unhealthy || s.Phase == Exhausted }

// CheckPassed says that the server answered a probe. If deliveries are parked, or the budget has
// opened the circuit, a trial decides; otherwise the circuit closes. That of an inbox closes, too,
// if its ordered deliveries wait under its host: if the next of them fails, it opens again, and
// this check counts as failed.
func (s State) CheckPassed(r Rules, now time.Time) State {
	if !s.Down() {
		return s
	}
	if s.spentToday(r, now) {
		return s.failed(r, s.Reason, s.Why, now)
	}
	if !s.Parked && !s.Wasteful(r) {
		return s.Unproved(r, now)
	}
	// Tried stays, so that inboxes whose trials failed at the last check are not first again.
	s.Phase, s.Since, s.Trials = HalfOpen, now, 0
	s.CheckAt = now.Add(r.TrialTimeout)
	return s.kept(r, now)
}

// Unproved ends an outage although nothing was accepted. The circuit of an inbox opens again at
// its first failure.
func (s State) Unproved(r Rules, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen && t.DownSince.IsZero() {
		return s
	}
	checks := max(t.Checks, t.Unproven) + 1
	if s = t.reopened(now); s.ofInbox() {
		s.Unproven = checks
	}
	return s.kept(r, now)
}

// CheckFailed says that a probe failed.
func (s State) CheckFailed(r Rules, reason outcome.Reason, why string, now time.Time) State {
	if !s.Down() {
		return s
	}
	s.Trials = 0
	return s.failed(r, reason, why, now)
}

// OtherInbox says that a delivery to inbox is about to be parked. If the server answered the
// last probe and only trials to other inboxes failed, the daily check comes forward to
// Rules.CheckFirst from now. The budget bounds this for servers with many broken inboxes: it counts
// the probe of such a check, as trials alone would let as many probes more through.
func (s State) OtherInbox(r Rules, inbox string, now time.Time) State {
	if !s.AnswersProbes() || s.TriedLately(inbox) > 0 || r.quick(s.Checks) || s.spent(r) {
		return s
	}
	sooner := s.Sooner(r, now.Add(r.CheckFirst), now)
	if sooner != s {
		sooner = sooner.spend(r, 1, now)
	}
	return sooner
}

// Works reports whether the server works and only some inboxes do not: it answered the last
// probe, and one of its inboxes accepted a delivery last and has failed none since. Deliveries
// are then sent although the circuit is open. Otherwise anybody who names many broken inboxes
// of a server, such as its pages, would delay its users. The same holds during a check that
// tries other inboxes.
func (s State) Works() bool {
	return s.Took != "" && !s.Lapsed && (s.AnswersProbes() || s.triesOthers())
}

// Spares reports whether a delivery to inbox is sent although the circuit is open, because the
// server works. If the budget has opened the circuit, or it is one for a signing key, only the
// inbox that accepted a delivery last is spared.
func (s State) Spares(r Rules, inbox string) bool {
	if s.ofSignedHost() {
		return s.TookLast(inbox) && !s.Lapsed
	}
	return !s.ofInbox() && s.Works() && !s.spent(r) && (!s.Wasteful(r) || s.TookLast(inbox))
}

// triesOthers reports whether a check is under way with no trial to the inbox that accepted a
// delivery last. That inbox comes first if a delivery to it waits.
func (s State) triesOthers() bool {
	return s.Phase == HalfOpen && !s.DownSince.IsZero() && s.Trials > 0 && !s.triedNow(s.Took)
}

// nextOfWorking returns the time of the check that a success makes due. While the server works,
// successes go on, and each check tries deliveries that failed. So each check comes when the outage
// is twice as old as at the last one: about ten in its first day.
func (s State) nextOfWorking(now time.Time) time.Time {
	if at := s.Since.Add(s.Since.Sub(s.DownSince)); s.Works() && at.After(now) {
		return at
	}
	return now
}

// Blames reports whether a failure is the fault of its inbox: its reason is not the host's, and
// another inbox accepted a delivery last and has failed none since.
func (s State) Blames(inbox string, o outcome.Outcome) bool {
	return o.HostFault() && !ofHost(o.Reason) && s.Took != "" && !s.Lapsed && !s.TookLast(inbox)
}

// TookLast reports whether inbox is the one that accepted a delivery last.
func (s State) TookLast(inbox string) bool { return s.Took != "" && s.Took == inboxDigest(inbox) }

// took records that inbox has accepted a delivery; "" changes nothing.
func (s State) took(inbox string) State {
	if inbox != "" {
		s.Took, s.Lapsed = inboxDigest(inbox), false
	}
	return s
}

// AnswersProbes reports whether the server answered the last probe, and only trials failed.
func (s State) AnswersProbes() bool { return s.Down() && s.Trials > 0 }

// LeavesInboxes reports whether deliveries to an inbox with an open circuit wait for that circuit
// although the server takes none either: the server answers probes, or is paused.
func (s State) LeavesInboxes() bool { return s.AnswersProbes() || s.DownSince.IsZero() }

func (s State) failed(r Rules, reason outcome.Reason, why string, now time.Time) State {
	s.Checks, s.Streak = s.Checks+1, 0
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
		// A check is at the give-up time, so that exhaustion is noticed then and not a day
		// later.
		if end := s.DownSince.Add(r.GiveUp); now.Before(end) && end.Before(s.CheckAt) {
			s.CheckAt = end
		}
	}
	return s.kept(r, now)
}

// untilCheck is Rules.wait, or longer if the budget is spent.
func (s State) untilCheck(r Rules, parked bool) time.Duration {
	wait := r.wait(s.Checks, parked)
	if s.spent(r) && wait > 0 {
		return r.CheckSlow
	}
	return wait
}

// TrialSent says that a trial to an inbox was released; sole: the check has no other inbox left
// to try. Without an outcome within Rules.TrialTimeout, another trial is released.
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

// mostTried bounds the inboxes in Tried: those of an outage's quick checks.
const mostTried = 20

// TriedLately is 0 if none of the last trials went to inbox, and greater the later that trial was.
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

// TrialEnded applies the outcome of a trial at to, after the requests that it made in vain. While
// the budget keeps the circuit open, a refusal within the budget leaves the server half-open, for
// one delivery after another. Of refusals that spend the budget, only a 403 does so: any other
// shows that the server verifies a signature form, which OneRequest would not try.
func (s State) TrialEnded(r Rules, to activity.Target, o outcome.Outcome, now time.Time) State {
	if !s.Trying(now) {
		return s.Observe(r, InVain(o), now) // another trial has decided
	}
	before := s.spentToday(r, now)
	s = s.spend(r, o.Vain(), now)
	within := o.Vain() == 0 || !s.spentToday(r, now) || !before && o.Status == http.StatusForbidden
	switch refused := o.Class == outcome.Refused || o.Class == outcome.Gone; {
	case refused && within && s.Wasteful(r):
		s.Streak = 0
		return s.TrialVoid(r, now)
	case o.Try != outcome.Made && (o.Vain() == 0 || !s.spent(r)):
		return s.TrialVoid(r, now)
	case o.Class == outcome.Delivered:
		return s.TrialPassed(r, to.Inbox, now)
	case s.Wasteful(r), o.HostFault(), o.Class == outcome.Unverified && OfSigningKey(s.Key):
		return s.TrialFailed(r, o.Reason, o.Err, now)
	case o.Class == outcome.Throttled:
		return s.TrialThrottled(r, to.Shared, o.RetryAfter, o.Err, now)
	case o.Class == outcome.Unverified:
		return s.TrialAnswered(r, now)
	}
	return s.TrialPassed(r, "", now)
}

// TrialPassed begins the recovery: the server answered the trial. took is the trial's inbox if
// it accepted the delivery, or "".
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

// TrialAnswered is TrialPassed for an answer about the trial's signing key, such as a 401. The
// next outage or pause goes on from the counts of this one unless something is accepted:
// otherwise a 401 now and then would cost the quick checks again each time.
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

// TrialFailed counts a failed trial. The host has just answered a probe, so only the inbox may
// be broken. So Rules.Trials trials in a row fail, each to another inbox, before the check counts
// as failed; fewer if the reason is the host's own, or no other inbox is left.
func (s State) TrialFailed(r Rules, reason outcome.Reason, why string, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	s = t
	s.Streak++
	if s.Took != "" && strings.HasSuffix(s.Tried, s.Took) {
		s.Lapsed = true
	}
	if !ofHost(reason) && s.Streak < r.Trials && !s.Sole && !s.ofInbox() && !s.spent(r) {
		return s.TrialVoid(r, now)
	}
	return s.failed(r, reason, why, now)
}

// TrialThrottled says that the inbox of a trial asked for a pause until a time, which counts
// for this inbox. After Rules.Trials trials the server is paused again. Only a shared inbox
// says for how long.
func (s State) TrialThrottled(r Rules, shared bool, until time.Time, why string, now time.Time) State {
	t := s.Settled(now)
	switch {
	case t.Phase != HalfOpen:
		return s
	case t.ofSignedHost():
		return s.TrialAnswered(r, now) // the pause is the inbox's, for all keys
	case t.ofInbox():
	case !t.Sole && t.Trials < r.Trials:
		return t.TrialVoid(r, now)
	case !shared:
		until = now.Add(r.throttled(t.Throttles + 1))
	}
	return t.Throttle(r, until, why, now)
}

// TrialVoid says that the trial was not made: another is due now.
func (s State) TrialVoid(r Rules, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != HalfOpen {
		return s
	}
	s = t
	s.CheckAt = now
	return s.kept(r, now)
}

// Postpone sets the next step without counting a check.
func (s State) Postpone(r Rules, until, now time.Time) State {
	s.CheckAt = until
	return s.kept(r, now)
}

// Sooner makes the next step due at at, unless it is due earlier.
func (s State) Sooner(r Rules, at, now time.Time) State {
	if s.CheckAt.IsZero() || s.CheckAt.After(at) {
		s.CheckAt = at
		return s.kept(r, now)
	}
	return s
}

// Idle says that no step is due.
func (s State) Idle(r Rules, now time.Time) State {
	s = s.Settled(now)
	s.CheckAt = time.Time{}
	return s.kept(r, now)
}
