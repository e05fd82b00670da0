package circuit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/property"
)

func answered(class outcome.Class, status int) outcome.Outcome {
	return outcome.Outcome{Class: class, Status: status, Err: fmt.Sprint("answered ", status), RetryAfter: t0.Add(time.Hour)}
}

// inbox n of a server.
func inbox(n int) string { return fmt.Sprintf("https://a.example/%d", n) }

func TestAServerIsPausedByTheInboxThatAcceptedLastOrByThree(t *testing.T) {
	slow := answered(outcome.Throttled, 429)
	at := func(o Observation, n int) Observation { return o.Add(inbox(n), slow) }
	accepted := Observation{}.Add(inbox(0), ok())
	five := func(o Observation) Observation {
		for n := range rules.OpenAfter {
			o = o.Add(inbox(n), fault(0))
		}
		return o
	}
	for _, c := range []struct {
		name   string
		o      Observation
		paused bool
	}{
		{"one", at(Observation{}, 1), false},
		{"one again and again", at(at(at(Observation{}, 1), 1), 1), false},
		{"two", at(at(Observation{}, 1), 2), false},
		{"three", at(at(at(Observation{}, 1), 2), 3), true},
		{"three, and one accepts in between", at(at(at(Observation{}, 1), 2).Add(inbox(0), ok()), 3), false},
		{"the one that accepted last", at(accepted, 0), true},
		{"another than accepted last", at(accepted, 1), false},
	} {
		s := fresh().Observe(rules, c.o, t0)
		if (s.Phase == Paused) != c.paused {
			t.Errorf("%s: %+v", c.name, s)
		}
		if c.paused && s.Until.Sub(t0) != rules.Throttled {
			t.Errorf("%s: paused until %s, whatever they asked for", c.name, s.Until)
		}
	}
	s := fresh().Observe(rules, at(accepted, 0), t0.Add(2*day))
	if s.Phase == Paused || !s.Forget.After(t0.Add(2*day)) {
		t.Errorf("a pause that is over when its answer is noted: %+v", s)
	}
	if s = s.Observe(rules, five(accepted).Add(inbox(0), slow), t0.Add(2*day)); s.Phase != Unhealthy {
		t.Errorf("five failures, and a pause that is over: %+v", s)
	}
	both := at(accepted, 0)
	for range rules.OpenAfter {
		both = both.Add(inbox(0), fault(0))
	}
	if s = fresh().Observe(rules, both, t0); s.Phase != Paused || fresh().Culprit(rules, both, t0) != "" {
		t.Errorf("paused for an inbox that fails, too, and %q is to blame: %+v", fresh().Culprit(rules, both, t0), s)
	}
	s = fresh()
	for n := range 3 {
		s = s.Observe(rules, at(Observation{}, n), t0.Add(time.Duration(n)*40*time.Second))
	}
	if s.Phase == Paused {
		t.Errorf("three within more than a minute: %+v", s)
	}
	s = fresh().Observe(rules, at(at(at(Observation{}, 1), 2), 3), t0).Park(rules, t0)
	if back := s.Observe(rules, accepted, t0.Add(time.Second)); back.Phase != Recovering || back.Throttles != 0 {
		t.Errorf("an acceptance does not end the pause: %+v", back)
	}
}

func TestATrialThatIsThrottledCountsForItsInboxOnly(t *testing.T) {
	s := fresh().Observe(rules, Observation{}.Add(inbox(1), answered(outcome.Throttled, 429)).Add(inbox(2), answered(outcome.Throttled, 429)).
		Add(inbox(3), answered(outcome.Throttled, 429)), t0).Park(rules, t0)
	now := s.Until
	for n := range rules.Trials {
		if s = s.TrialSent(rules, inbox(n), false, Sweep{}, now); !s.Trying(now) {
			t.Fatalf("trial %d: %+v", n, s)
		}
		s = s.TrialThrottled(rules, false, now.Add(12*time.Hour), "429", now)
	}
	if s.Phase != Paused || s.Throttles != 2 || s.Until.Sub(now) != rules.Throttled {
		t.Errorf("after all trials: %+v", s)
	}
	sole := s.TrialSent(rules, inbox(9), true, Sweep{}, s.Until)
	if got := sole.TrialThrottled(rules, true, s.Until.Add(time.Hour), "429", s.Until); got.Phase != Paused || got.Until.Sub(s.Until) != time.Hour {
		t.Errorf("a shared inbox with no other beside: %+v", got)
	}
}

func TestABudgetOpensTheCircuitAndOnlyAnAcceptanceClosesIt(t *testing.T) {
	s, refused := fresh(), Observation{}.Add(inbox(1), answered(outcome.Unverified, 401))
	for n := 1; s.Phase != Unhealthy; n++ {
		if n > rules.Budget*3/5 {
			t.Fatalf("open after %d requests in vain: %+v", n-1, s)
		}
		s = s.Observe(rules, refused, t0)
	}
	s = s.Park(rules, t0)
	for range 20 {
		now := s.CheckAt
		spent := s.spent(rules)
		s = s.CheckPassed(rules, now).TrialSent(rules, inbox(1), true, Sweep{}, now).spend(rules, 2, now)
		if !s.Wasteful(rules) {
			t.Fatalf("the budget no longer says what closes the circuit: %+v", s)
		}
		if s = s.TrialFailed(rules, "", "answered 401", now); s.spent(rules) && s.CheckAt.Sub(now) != rules.CheckSlow {
			t.Fatalf("spent, and the next check comes after %s", s.CheckAt.Sub(now))
		}
		if after := s.Observe(rules, Observation{Successes: 1}, now); spent && !after.CheckAt.Equal(s.CheckAt) {
			t.Fatalf("a late success makes a spent server cost more: %+v", after)
		}
	}
	now := s.CheckAt
	s = s.CheckPassed(rules, now).TrialSent(rules, inbox(1), true, Sweep{}, now).TrialPassed(rules, inbox(1), now)
	if s.Phase != Recovering || s.Vain != 0 {
		t.Errorf("after an acceptance: %+v", s)
	}
}

func TestASpentBudgetKeepsAllTrialsButAnOperatorsForTheNextDay(t *testing.T) {
	s := fresh().spend(rules, rules.Budget, t0).Park(rules, t0).Fault(rules, "", "answered 500", t0)
	for when, c := range map[string]struct {
		s   State
		now time.Time
		is  bool
	}{
		"within the day":           {s, t0.Add(23 * time.Hour), false},
		"a day later":              {s, t0.Add(day), true},
		"when an operator asks it": {s.CheckNow(rules, t0.Add(time.Hour)), t0.Add(time.Hour), true},
	} {
		if after := c.s.CheckPassed(rules, c.now); after.Trying(c.now) != c.is {
			t.Errorf("%s: %+v", when, after)
		}
	}
}

// A trial may end at its second request, by a fault of ours, after the first was in vain.
func TestATrialThatWasNotMadeIsRepeatedWithinTheBudget(t *testing.T) {
	now := t0.Add(day)
	onTrial := fresh().spend(rules, rules.Budget, t0).Park(rules, t0).Fault(rules, "", "answered 500", t0).CheckPassed(rules, now)
	for requests := 1; requests <= 3; requests++ {
		s, unmade := onTrial, outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried, Requests: requests}
		for n := 0; n < 100 && s.Trying(now); n++ {
			s = s.TrialSent(rules, inbox(1), true, Sweep{}, now).TrialEnded(rules, activity.Target{Inbox: inbox(1)}, unmade, now)
		}
		if s.Vain > rules.Budget || s.Trying(now) != (requests == 1) {
			t.Errorf("%d requests each: %+v", requests, s)
		}
	}
}

// Whatever a server answers, whenever the deliveries that wait for it end or new ones come, and
// whatever was under way when its circuit opened.
func TestAServerThatAcceptsNothingGetsABudgetInAny24Hours(t *testing.T) {
	const mostUnderWay, requestsEach = 6, 3
	type attempt struct {
		inbox string
		trial bool
	}
	property.Check(t, func(t *rapid.T) {
		s, now := fresh().took(inbox(rapid.IntRange(0, 9).Draw(t, "accepted once"))), t0
		var requests []time.Time
		var underWay []attempt
		end := func() {
			i := rapid.IntRange(0, len(underWay)-1).Draw(t, "ends")
			a := underWay[i]
			underWay = slices.Delete(underWay, i, i+1)
			throttled := answered(outcome.Throttled, 429)
			throttled.RetryAfter = now.Add(time.Hour)
			out := rapid.SampledFrom([]outcome.Outcome{fault(500), throttled, answered(outcome.Unverified, 401), answered(outcome.Refused, 404), {Class: outcome.Retry, Try: outcome.Untried}}).Draw(t, "answer")
			if out.Requests = requestsEach; out.Class == outcome.Refused || out.Try != outcome.Made {
				out.Requests = rapid.IntRange(1, requestsEach).Draw(t, "requests")
			}
			if a.trial && s.OneRequest(rules, now) {
				out.Requests = 1
			}
			for range out.Vain() {
				requests = append(requests, now)
			}
			for len(requests) > 0 && now.Sub(requests[0]) >= day {
				requests = requests[1:]
			}
			if len(requests) > rules.Budget {
				t.Fatalf("%d requests within 24 hours, the last at %s: %+v", len(requests), now, s)
			}
			switch o := (Observation{}).Add(a.inbox, out); {
			case a.trial && s.Trying(now):
				s = s.TrialEnded(rules, activity.Target{Inbox: a.inbox}, out, now)
			case out.Class == outcome.Unverified && rapid.Bool().Draw(t, "a trial of its key"):
				s = s.Observe(rules, InVain(out), now)
			default:
				s = s.Observe(rules, o, now)
			}
		}
		for range rapid.IntRange(100, 300).Draw(t, "steps") {
			later := []time.Duration{0, time.Second, time.Minute, 20 * time.Minute, time.Hour, 13 * time.Hour}
			if len(underWay) > 0 {
				later = later[:2]
			}
			now = now.Add(rapid.SampledFrom(later).Draw(t, "later"))
			wasteful := s.Wasteful(rules)
			at := inbox(rapid.IntRange(1, 9).Draw(t, "inbox"))
			likewise := func(a attempt) bool { return s.BesideOthers(rules, a.inbox) == s.BesideOthers(rules, at) }
			switch due := !s.CheckAt.IsZero() && !s.CheckAt.After(now); {
			case len(underWay) == mostUnderWay || s.OneByOne(rules) && slices.ContainsFunc(underWay, likewise) || len(underWay) > 0 && rapid.Bool().Draw(t, "one ends"):
				end()
			case s.Accepts(now) || s.Spares(rules, at):
				underWay = append(underWay, attempt{inbox: at})
			case rapid.IntRange(0, 9).Draw(t, "lot") == 0:
				s = s.Drained(rules, now).Emptied(rules, now)
			case due:
				s = s.CheckPassed(rules, now)
				if s.Trying(now) && !slices.ContainsFunc(underWay, func(a attempt) bool { return a.trial }) {
					s = s.TrialSent(rules, at, false, Sweep{}, now)
					underWay = append(underWay, attempt{inbox: at, trial: true})
				}
			default:
				s = s.Park(rules, now)
			}
			if wasteful && s.Accepts(now) {
				t.Fatalf("the circuit closed, and nothing was accepted: %+v", s)
			}
		}
	})
}

// Attempts under way when a circuit opens do not count against the budget of a server that has
// accepted lately.
func TestWhatIsUnderWayAtAServerThatHasAcceptedLatelySpendsNoBudget(t *testing.T) {
	for name, out := range map[string]outcome.Outcome{"down": fault(0), "refusing": answered(outcome.Unverified, 401)} {
		var all Observation
		for n := range 300 {
			all = all.Add(inbox(n), out)
		}
		lately := all
		lately.TookAt = t0.Add(-59 * time.Minute)
		s := fresh().Observe(rules, lately, t0)
		if s.Phase != Unhealthy || s.Vain >= rules.Budget || s.CheckAt.Sub(t0) != rules.CheckSoon {
			t.Errorf("%s: %+v", name, s)
		}
		if after := s.Observe(rules, all, t0.Add(time.Second)); after.Vain != s.Vain {
			t.Errorf("%s, of another process: %+v", name, after)
		}
		if s = fresh().Observe(rules, all, t0); s.Phase != Unhealthy || s.CheckAt.Sub(t0) != rules.CheckSlow {
			t.Errorf("%s, and has accepted nothing lately: %+v", name, s)
		}
	}
}
