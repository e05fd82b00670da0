package verdict

import (
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// Decide says what becomes of a target without an attempt, or that one is made.
func Decide(s *Snapshot, t Target) Verdict {
	switch {
	case s.Delivery.Bodiless:
		// No protocol has an activity without a body: the body was stored apart, and is lost.
		return Dead{Reason: "damaged", Why: "the body of the activity is missing or damaged"}
	case s.Overdue():
		d := Dead{Reason: "age", Why: "not delivered within " + s.Policy.GiveUp.String()}
		if until := s.ReviveUntil(); until.After(s.Now) && s.Servers.Host.Revivable(s.Now) {
			d.Revive = until
		}
		return d
	}
	v := s.byNewer(t, s.inLine(t, ByServers(s, t)))
	if v == (Attempt{}) && s.Found.Turn.After(s.Now) {
		v = s.overLimit(t)
	}
	return v
}

// ReviveUntil is until when the delivery may come back to life if it dies now; zero: it
// stays dead. Requests to webhooks do: a webhook is disabled by the time that its requests
// die, and a disabled one refuses them for good.
func (s *Snapshot) ReviveUntil() (until time.Time) {
	if s.Rules.Revive == 0 || !s.Policy.Circuit || !s.Policy.Park || s.Delivery.Disposable {
		return until
	}
	if until = s.Delivery.Revive; until.IsZero() {
		until = s.Now.Add(s.Rules.Revive)
	}
	return until
}

// ByServers decides by the states of the servers alone.
func ByServers(s *Snapshot, t Target) Verdict {
	switch {
	case !s.Policy.Circuit:
	case s.Servers.Decision == circuit.Refuse:
		return Refused{Why: refusal(s.Servers.By)}
	case s.Servers.Decision == circuit.Wait && !s.OnTrial() && !s.spared(t):
		return s.parkFor(t)
	}
	return Attempt{}
}

func refusal(s circuit.State) string {
	if s.Phase == circuit.Blocked {
		return "server is blocked: " + s.Why
	}
	return "server is gone: " + s.Why
}

// spared reports whether a target is attempted although the circuit that decides is open.
func (s *Snapshot) spared(t Target) bool {
	return s.Servers.By.Spares(*s.Rules, t.Inbox) && s.Servers.Inbox.Accepts(s.Now)
}

// parkFor parks a target whose server does not accept deliveries now. An ordered target is
// always parked under its host, because the other deliveries of its group look for it there.
func (s *Snapshot) parkFor(t Target) Park {
	by := s.Servers.By
	p := Park{Wait: s.waitFor(by), Under: by.Key}
	if s.Delivery.Generation == 0 && by.LeavesInboxes() && !s.Servers.Inbox.Accepts(s.Now) {
		// In the lot of its inbox it is in the way of no other inbox. A released one is
		// parked under the host, to have its turn there.
		p.Under = t.InboxKey
	}
	if !s.Delivery.Ordered {
		return p
	}
	p.Under = t.HostKey
	if p.Held = p.Under != by.Key; p.Held {
		// The inbox is down and its host is not: try again after the inbox's next check, and
		// let those to other inboxes go.
		p.Alone = by.Key != t.HostSignedKey
		p.Due = s.Now.Add(s.Rules.CheckFirst)
		if at := by.LooksAt(s.Now); at.After(s.Now) {
			p.Due = at.Add(s.Rules.RampEvery)
		}
		p.until = p.Due
	}
	return p
}

// waitFor is the wait for a server that does not accept deliveries.
func (s *Snapshot) waitFor(by circuit.State) Wait {
	until := by.LooksAt(s.Now)
	if until.IsZero() {
		until = s.Now // parking makes a look due
	}
	return Wait{circuitOpen, by.Explain(s.Now), by.Key, until}
}

// inLine parks an ordered target behind an earlier one. A target leaves the line of its host,
// if its inbox takes nothing, when it is the first there: whoever comes later to that inbox
// waits in the line of the inbox until that is empty, also if the inbox takes something again.
func (s *Snapshot) inLine(t Target, v Verdict) Verdict {
	p, _ := v.(Park)
	if v != (Attempt{}) && !p.Alone {
		return v
	}
	switch s.Found.Behind {
	case HostLine:
		return s.hold(t, groupOrder, "an earlier delivery of its ordering key to this server is not over")
	case InboxLine:
		p = s.hold(t, groupOrder, "an earlier delivery of its ordering key to this inbox is not over")
		p.Alone = true
		return p
	}
	return v
}

// hold parks a target of an ordered group whose host accepts others, behind the head of the
// group.
func (s *Snapshot) hold(t Target, c cause, why string) Park {
	until := s.Servers.Host.LooksAt(s.Now)
	if until.IsZero() {
		until = s.Now.Add(s.Rules.CheckSlow)
	}
	return Park{Wait: Wait{c, why, t.HostKey, until}, Under: t.HostKey, Held: true}
}

// byNewer replaces v by what another activity makes of this one.
func (s *Snapshot) byNewer(t Target, v Verdict) Verdict {
	switch _, refused := v.(Refused); {
	case s.Found.Newer.State == "", refused:
	case s.Found.Newer.State == activity.Redundant:
		return Redundant{By: s.Found.Newer.By}
	case s.Found.Newer.State == activity.Superseded:
		return Superseded{By: s.Found.Newer.By}
	case v == (Attempt{}) && !s.OnTrial():
		return s.comeBack(t, Wait{otherSending, "waits for what may be under way to its inbox", t.InboxKey, s.Found.Newer.Until})
	}
	return v
}

// overLimit parks a target over the rate limit. An unordered target waits for its slot on its
// queue, if it has one soon, or else for the releases of its host; an ordered one has taken a
// slot of its own, and the others of its group park behind it. If the protocol does not park,
// the target waits on its queue.
func (s *Snapshot) overLimit(t Target) Verdict {
	w := Wait{rateLimit, "waits for the rate limit of its server", t.HostKey, s.Found.Turn}
	switch {
	case !s.Policy.Park:
		return Again{Wait: w}
	case !s.Delivery.Ordered && !s.Found.Slot.IsZero():
		w.until = s.Found.Slot
		return Again{Wait: w, Slot: s.Found.Slot}
	case !s.Delivery.Ordered:
		return Park{Wait: w, Under: t.HostKey}
	}
	w.until = s.Found.Due
	return Park{Wait: w, Under: t.HostKey, Held: true, Due: s.Found.Due, Slot: s.Found.Slot}
}

// LongestCrowded is after how long, at most, a delivery comes back that found no place.
const LongestCrowded = 2 * time.Minute

// Crowded sends a delivery that found no place back to its queue. The wait grows with the
// number of receives, and has jitter, so that deliveries do not come back all at once. asked
// is the earliest time that the protocol asks for; zero: none.
func Crowded(s *Snapshot, t Target, why string, asked time.Time) Verdict {
	wait := min(s.Policy.Wait(s.Delivery.Receives, s.Random[0]), LongestCrowded)
	at := s.Now.Add(time.Duration(float64(wait) * (0.8 + 0.4*s.Random[1])))
	if asked.After(at) {
		at = asked
	}
	return NoPlaceUntil(s, t, why, at)
}

// NoPlaceUntil is Crowded with a time at which the delivery comes back.
func NoPlaceUntil(s *Snapshot, t Target, why string, at time.Time) Verdict {
	return s.comeBack(t, Wait{noPlace, why, t.HostKey, at})
}

// comeBack has a delivery come back without an attempt. On the ordered queue each receive
// counts, so there the delivery waits in its lot.
func (s *Snapshot) comeBack(t Target, w Wait) Verdict {
	if s.Delivery.Ordered && s.Policy.Park {
		return Park{Wait: w, Under: t.HostKey, Held: true, Due: w.until}
	}
	return Again{Wait: w}
}
