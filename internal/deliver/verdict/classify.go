package verdict

import (
	"cmp"
	"fmt"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
)

// Classify decides about a target after an attempt. t.Tries includes the attempt, and s has
// what it showed about the servers.
func Classify(s *Snapshot, t Target, o outcome.Outcome) Verdict {
	switch {
	case o.Try == outcome.Waiting:
		return Crowded(s, t, o.Err, o.RetryAfter)
	case o.Class == outcome.Delivered:
		return Delivered{}
	case o.Class == outcome.Refused, o.Class == outcome.Gone, !s.Policy.Again(o, t.Tries) && o.Try == outcome.Made:
		return Refused{}
	}
	return s.later(t, o)
}

func (s *Snapshot) later(t Target, o outcome.Outcome) Verdict {
	ours := o.Try == outcome.Untried
	if s.Policy.Circuit && s.Policy.Park && s.Servers.Decision == circuit.Wait {
		p := s.parkFor(t)
		if s.blames(t, o) {
			p.Under = t.InboxKey
		}
		return p
	}
	failed := Wait{attemptMade, cmp.Or(o.Err, "the last attempt failed"), t.HostKey, s.retryAt(t, o)}
	switch {
	case ours, s.Policy.Left(t.Tries) > 0:
		return Again{Wait: failed}
	case s.Policy.Park && s.Delivery.Ordered:
		due := s.Now.Add(s.Rules.HeldWait(t.Tries-s.Policy.Tries, s.Now.Sub(s.Delivery.Since)))
		failed.until = due
		return Park{Wait: failed, Under: failed.whom, Held: true, Alone: true, Due: due}
	case s.Policy.Park && o.Class == outcome.Unverified:
		return s.parkForInbox(t.SignedKey, failed)
	case s.Policy.Park:
		return s.parkForInbox(t.InboxKey, failed)
	}
	return Dead{Reason: "exhausted", Why: fmt.Sprintf("%d tries failed", t.Tries)}
}

// retryAt is when a failed target is tried again: by its policy, or as its host asked.
func (s *Snapshot) retryAt(t Target, o outcome.Outcome) time.Time {
	wait := s.Policy.WaitAfter(o, max(1, t.Tries), s.Random[0])
	if o.Try == outcome.Untried {
		wait = max(wait, s.Policy.Wait(s.Delivery.Receives, s.Random[1]))
	}
	if at := s.Now.Add(wait); o.RetryAfter.Before(at) {
		return at
	}
	return o.RetryAfter
}

// parkForInbox parks a target whose tries are exhausted while its host accepts others. The
// inbox gets a circuit, whose first check comes soon.
func (s *Snapshot) parkForInbox(key string, failed Wait) Park {
	failed.whom, failed.until = key, s.Now.Add(s.Rules.CheckSoon)
	return Park{Wait: failed, Under: failed.whom}
}

// blames reports whether a failure is the fault of the inbox, and not of its host, which is
// down or paused. In the lot of the inbox the delivery delays no other inbox.
func (s *Snapshot) blames(t Target, o outcome.Outcome) bool {
	if !s.ofHost() || s.Delivery.Ordered {
		return false
	}
	paused := o.Class == outcome.Throttled && !s.Servers.Inbox.Accepts(s.Now)
	return paused || s.Servers.By.Blames(t.Inbox, o)
}
