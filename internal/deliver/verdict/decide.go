package verdict

import (
	"cmp"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// Decide decides about a target before an attempt.
func Decide(s *Snapshot, t Target) Verdict {
	switch {
	case s.Delivery.Bodiless:
		// No protocol has activities without a body: it was stored apart, and is lost.
		return Dead{Reason: "damaged", Why: "the body of the activity is missing or damaged"}
	case s.Overdue():
		d := Dead{Reason: "age", Why: "not delivered within " + s.Policy.GiveUp.String()}
		if s.Servers.Decision == circuit.Wait {
			d.Why += ": " + s.Servers.By.Trouble()
		}
		if until := s.ReviveUntil(); until.After(s.Now) && s.Servers.Host.Revivable(s.Now) {
			d.Revive = until
		}
		return d
	}
	v := s.byNewer(t, s.inOrder(t, ByServers(s, t)))
	if v == (Attempt{}) && s.Found.NotBefore.After(s.Now) {
		v = s.overLimit(t)
	}
	return v
}

// ReviveUntil is until when the delivery may be revived if it dies now; zero: never. A Disposable
// one is a request to a webhook, and the webhook is disabled by then.
func (s *Snapshot) ReviveUntil() (until time.Time) {
	if s.Rules.Revive == 0 || !s.Policy.Circuit || !s.Policy.Park || s.Delivery.Disposable {
		return until
	}
	return cmp.Or(s.Delivery.Revive, s.Now.Add(s.Rules.Revive))
}

// ByServers decides by the states of the servers only.
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

// spared reports whether a target is attempted although the circuit is open.
func (s *Snapshot) spared(t Target) bool {
	return s.Servers.By.Spares(*s.Rules, t.Inbox) && s.Servers.Inbox.Accepts(s.Now)
}

// parkFor parks a target whose server accepts no deliveries. An ordered one is always parked
// under its host, where the others of its group look for it.
func (s *Snapshot) parkFor(t Target) Park {
	by := s.Servers.By
	p := Park{Wait: s.waitFor(by), Under: by.Key}
	if s.Delivery.Generation == 0 && by.LeavesInboxes() && !s.Servers.Inbox.Accepts(s.Now) {
		// In the lot of its inbox the delivery delays no other inbox. A released one is parked
		// under the host, as a candidate for the host's trial.
		p.Under = t.InboxKey
	}
	if !s.Delivery.Ordered {
		return p
	}
	p.Under = t.HostKey
	if p.Held = p.Under != by.Key; p.Held {
		// The inbox is down and its host is not: try again after the inbox's next check, and do
		// not hold up other inboxes.
		p.Alone = by.Key != t.HostSignedKey
		p.Due = s.Now.Add(s.Rules.CheckFirst)
		if at := by.LooksAt(s.Now); at.After(s.Now) {
			p.Due = at.Add(s.Rules.RampEvery)
		}
		p.until = p.Due
	}
	return p
}

func (s *Snapshot) waitFor(by circuit.State) Wait {
	until := cmp.Or(by.LooksAt(s.Now), s.Now) // parking makes a step due
	return Wait{circuitOpen, by.Explain(s.Now), by.Key, until}
}

// inOrder parks an ordered target behind an earlier one. A target whose inbox is down leaves the
// group of its host when it is the first there. Later ones to that inbox wait in the inbox's
// group until that is empty, even if the inbox is back.
func (s *Snapshot) inOrder(t Target, v Verdict) Verdict {
	p, _ := v.(Park)
	if v != (Attempt{}) && !p.Alone {
		return v
	}
	switch s.Found.Behind {
	case HostGroup:
		return s.hold(t, groupOrder, "an earlier delivery of its ordering key to this server is not over")
	case InboxGroup:
		p = s.hold(t, groupOrder, "an earlier delivery of its ordering key to this inbox is not over")
		p.Alone = true
		return p
	}
	return v
}

// hold parks a target behind the head of its group, while its host accepts others.
func (s *Snapshot) hold(t Target, c cause, why string) Park {
	until := cmp.Or(s.Servers.Host.LooksAt(s.Now), s.Now.Add(s.Rules.CheckSlow))
	return Park{Wait: Wait{c, why, t.HostKey, until}, Under: t.HostKey, Held: true}
}

// byNewer replaces v if another activity makes the delivery needless.
func (s *Snapshot) byNewer(t Target, v Verdict) Verdict {
	switch _, refused := v.(Refused); {
	case s.Found.Newer.State == "", refused:
	case s.Found.Newer.State == activity.Redundant:
		return Redundant{By: s.Found.Newer.By}
	case s.Found.Newer.State == activity.Superseded:
		return Superseded{By: s.Found.Newer.By}
	case v == (Attempt{}) && !s.OnTrial():
		return s.comeBack(t, Wait{otherSending, "waits for another activity about the same object, which may be under way", t.InboxKey, s.Found.Newer.Until})
	}
	return v
}

// overLimit lets a target wait that is over the rate limit. An unordered one waits on its queue for
// its slot, or else for the releases of its host. An ordered one waits in the lot for its own slot,
// with its group behind it. If the protocol does not park, all wait on the queue.
func (s *Snapshot) overLimit(t Target) Verdict {
	w := Wait{rateLimit, "waits for the rate limit of its server", t.HostKey, s.Found.NotBefore}
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

// longestCrowded is the longest wait of a delivery that found no place.
const longestCrowded = 2 * time.Minute

// Crowded sends a delivery that found no place back to its queue. The wait grows with the
// number of receives and has jitter. asked is the earliest time that the protocol asks for;
// zero: none.
func Crowded(s *Snapshot, t Target, why string, asked time.Time) Verdict {
	wait := min(s.Policy.Wait(s.Delivery.Receives, s.Random[0]), longestCrowded)
	at := s.Now.Add(time.Duration(float64(wait) * (0.8 + 0.4*s.Random[1])))
	if asked.After(at) {
		at = asked
	}
	return NoPlaceUntil(s, t, why, at)
}

// NoPlaceUntil is Crowded until a given time.
func NoPlaceUntil(s *Snapshot, t Target, why string, at time.Time) Verdict {
	return s.comeBack(t, Wait{noPlace, why, t.HostKey, at})
}

// comeBack returns a delivery without an attempt. On the ordered queue each receive counts, so
// there it waits in its lot.
func (s *Snapshot) comeBack(t Target, w Wait) Verdict {
	if s.Delivery.Ordered && s.Policy.Park {
		return Park{Wait: w, Under: t.HostKey, Held: true, Due: w.until}
	}
	return Again{Wait: w}
}
