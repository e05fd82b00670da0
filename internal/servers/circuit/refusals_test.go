package circuit

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/property"
)

// A refusal ends its delivery, and costs nothing of the budget once that is spent. So while a server answers with
// refusals, none that waits for it waits for more than those before it, one a minute, whatever
// was spent before, and whether its lot is empty now and then.
func TestWhatWaitsForAServerThatRefusesEndsOneByOne(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		s := fresh().Park(rules, t0).spend(rules, rapid.IntRange(rules.opensAt(), rules.Budget).Draw(t, "spent"), t0).
			Fault(rules, outcome.ReasonNone, "answered 401", t0)
		began := t0.Add(day)
		s = s.Postpone(rules, began, t0)
		by := make([]time.Time, rapid.IntRange(1, 30).Draw(t, "parked")) // when each ends at the latest
		for i := range by {
			by[i] = began.Add(time.Duration(i+1) * time.Minute)
		}
		newOnes := rapid.IntRange(0, 80).Draw(t, "new ones in a hundred minutes")
		for now := began; now.Before(began.Add(5 * time.Hour)); now = now.Add(time.Minute) {
			due := !s.CheckAt.IsZero() && !s.CheckAt.After(now)
			if due {
				s = s.CheckPassed(rules, now)
			}
			switch {
			case !due, !s.Trying(now):
			case len(by) == 0:
				s = s.Drained(rules, now).Emptied(rules, now)
			default:
				s = s.TrialSent(rules, inbox(0), len(by) == 1, Sweep{}, now)
				refusal := rapid.SampledFrom([]outcome.Outcome{answered(outcome.Refused, 403), answered(outcome.Refused, 404), answered(outcome.Gone, 410)}).Draw(t, "refusal")
				if refusal.Status == 403 && !s.OneRequest(rules, now) {
					refusal.Requests = 2 // with both signature forms
				}
				s = s.TrialEnded(rules, activity.Target{Inbox: inbox(0)}, refusal, now)
				if s.Vain > rules.Budget {
					t.Fatalf("more than the budget is spent: %+v", s)
				}
				by = by[1:]
			}
			if rapid.IntRange(0, 99).Draw(t, "a new one") < newOnes {
				s = s.Park(rules, now)
				by = append(by, now.Add(time.Duration(len(by)+2)*time.Minute))
			}
			if len(by) > 0 && now.After(by[0]) {
				t.Fatalf("the first of %d should have ended by %s; now it is %s: %+v", len(by), by[0], now, s)
			}
		}
	})
}

// A refusal is no failed trial: after any number of them, it takes as many failures in a row to end
// a check as without.
func TestRefusalsUseUpNoTrialOfACheck(t *testing.T) {
	refused, fails := answered(outcome.Refused, 404), fault(500)
	s := fresh().Park(rules, t0).spend(rules, rules.opensAt(), t0).Fault(rules, outcome.ReasonNone, "answered 500", t0)
	now := s.CheckAt
	s = s.CheckPassed(rules, now)
	for n, out := range []outcome.Outcome{refused, refused, refused, fails, fails, refused, fails, fails, fails} {
		if !s.Trying(now) {
			t.Fatalf("the check ended after %d trials: %+v", n, s)
		}
		s = s.TrialSent(rules, inbox(n), false, Sweep{}, now).TrialEnded(rules, activity.Target{Inbox: inbox(n)}, out, now)
	}
	if s.Trying(now) || s.Checks != 1 {
		t.Errorf("after %d failed trials in a row: %+v", rules.Trials, s)
	}
}
