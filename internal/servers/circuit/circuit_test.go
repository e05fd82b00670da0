package circuit

import (
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

var (
	t0    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rules = Default()
)

func fresh() State { return State{Key: HostKey("a.example"), Phase: Healthy} }

func ok() outcome.Outcome { return outcome.Outcome{Class: outcome.Delivered, Status: 202} }

func fault(status int) outcome.Outcome {
	if status == 0 {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
	}
	return outcome.Outcome{Class: outcome.Retry, Status: status, Err: "answered"}
}

// see applies attempts one by one, a second apart. A lower-case letter is an inbox that
// fails, and an upper-case letter an inbox that succeeds.
func see(s State, attempts string, now time.Time) (State, time.Time) {
	for _, c := range attempts {
		o, inbox := fault(500), string(c)
		if c >= 'A' && c <= 'Z' {
			o = ok()
		}
		s = s.Observe(rules, Observation{}.Add("https://a.example/"+inbox, o), now)
		now = now.Add(time.Second)
	}
	return s, now
}

func TestTheCircuitOpensOnFailuresInARowOrByShare(t *testing.T) {
	for _, c := range []struct {
		name, attempts string
		want           Phase
	}{
		{"four in a row", "abcd", Healthy},
		{"five in a row", "abcde", Unhealthy},
		{"a success between", "abcdXabcd", Healthy},
		{"five after a success", "Xabcde", Unhealthy},
		{"six of nine", "aXbcXdeXf", Healthy},
		{"seven of ten", "abXcdXefXg", Unhealthy},
		{"six of ten", "abXcdXefXX", Healthy},
		{"one inbox, and no other succeeds", "aaaaa", Unhealthy},
		{"one inbox, while others succeed", "aXaaaaa", Healthy},
		{"one inbox by share, while others succeed", "aXaaXaaXaaaa", Healthy},
		{"two inboxes, while others succeed", "aXbabab", Unhealthy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := see(fresh(), c.attempts, t0)
			if s.Phase != c.want {
				t.Errorf("phase %s, want %s: %+v", s.Phase, c.want, s)
			}
		})
	}
}

func TestFiveFailuresInARowAreCountedAcrossObservations(t *testing.T) {
	a, b := Observation{}, Observation{}
	for range 2 {
		a = a.Add("x", fault(0))
	}
	a = Observation{}.Add("x", ok()).Then(a)
	for range 3 {
		b = b.Add("y", fault(500))
	}
	for _, s := range []State{
		fresh().Observe(rules, a, t0).Observe(rules, b, t0),
		fresh().Observe(rules, a.Then(b), t0),
	} {
		if s.Phase != Unhealthy {
			t.Errorf("the state is %+v, want unhealthy", s)
		}
	}
}

func TestOutcomesOutsideTheWindowDoNotCount(t *testing.T) {
	s, now := see(fresh(), "abXcdXef", t0)
	s, _ = see(s, "XgX", now.Add(rules.Window))
	if s.Phase != Healthy || s.Window.Failures != 1 {
		t.Errorf("the state is %+v, want healthy with one failure", s)
	}
}

func TestRefusalsAreNoFaultOfTheHost(t *testing.T) {
	for _, o := range []outcome.Outcome{
		{Class: outcome.Refused, Status: 404},
		{Class: outcome.Unverified, Status: 401},
		{Class: outcome.Doubtful, Status: 400},
		{Class: outcome.Retry, Reason: outcome.Timeout, Try: outcome.Untried},
	} {
		s := fresh()
		for range 20 {
			s = s.Observe(rules, Observation{}.Add("x", o), t0)
		}
		if s.Phase != Healthy || s.Streak != 0 || s.Window.Failures != 0 || (s.Vain > 0) != (o.Vain() > 0) {
			t.Errorf("%+v led to %+v", o, s)
		}
	}
}

func TestAHealthyServerHasNoRecord(t *testing.T) {
	s := fresh()
	if got := s.Observe(rules, Observation{Successes: 1000}, t0); got != s {
		t.Errorf("a success changed the state: %+v", got)
	}
	s, now := see(s, "aX", t0)
	later := now.Add(rules.Window)
	if got := s.Observe(rules, Observation{Successes: 1}, later); got != s {
		t.Errorf("a success after the window changed the state: %+v", got)
	}
	if s.Forget.IsZero() || s.Forget.Sub(now) > 2*day {
		t.Errorf("the record of one failure is kept until %s", s.Forget)
	}
}

func TestTheInboxThatFailsAloneIsTheCulprit(t *testing.T) {
	const bad = "https://a.example/a"
	s, now := see(fresh(), "aXaaaa", t0)
	o := Observation{}.Add(bad, fault(500))
	if got := s.Culprit(rules, o, now); got != bad {
		t.Errorf("culprit %q", got)
	}
	after := s.Observe(rules, o, now)
	if after.Phase != Healthy || !after.InboxesUntil.After(now.Add(rules.GiveUp)) || after.Streak != 0 {
		t.Errorf("the state is %+v, want healthy with inboxes known for longer than the give-up time", after)
	}
	down := Observation{}.Add(bad, outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnRefused})
	if got := s.Culprit(rules, down, now); got != "" {
		t.Errorf("a refused connection is blamed on %q", got)
	}
	if s := s.Observe(rules, down, now); s.Phase != Unhealthy {
		t.Errorf("the state is %+v, want unhealthy", s)
	}
}

func TestChecksAreMadeAfterAMinuteThenAt5Plus10nMinutesAndThenDaily(t *testing.T) {
	for _, c := range []struct {
		parked bool
		want   []time.Duration
	}{
		{true, []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 25 * time.Minute, 35 * time.Minute, 45 * time.Minute, day, day, day}},
		{false, []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 25 * time.Minute, 35 * time.Minute, 45 * time.Minute, 0}},
	} {
		s := fresh().Fault(rules, outcome.DNS, "no such host", t0)
		if c.parked {
			s = s.Park(rules, t0)
		}
		now := t0
		for i, want := range c.want {
			var wait time.Duration
			if !s.CheckAt.IsZero() {
				wait = s.CheckAt.Sub(now)
			}
			if wait != want {
				t.Fatalf("parked %v: check %d is due after %s, want %s", c.parked, i, wait, want)
			}
			if wait > 0 {
				now = s.CheckAt
				s = s.CheckFailed(rules, outcome.DNS, "no such host", now)
			}
		}
		if !s.DownSince.Equal(t0) || s.Phase != Unhealthy {
			t.Errorf("the state is %+v, want unhealthy since the first failure", s)
		}
	}
}

func TestAServerIsExhaustedAfterTheGiveUpTime(t *testing.T) {
	s := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0)
	for s.Phase == Unhealthy {
		if s.CheckAt.IsZero() || s.CheckAt.After(t0.Add(rules.GiveUp)) {
			t.Fatalf("not exhausted by %s", s.CheckAt)
		}
		s = s.CheckFailed(rules, outcome.Timeout, "", s.CheckAt)
	}
	if s.Phase != Exhausted || !s.Since.Equal(t0.Add(rules.GiveUp)) || s.Accepts(s.Since) {
		t.Errorf("the state is %+v, want exhausted after the give-up time", s)
	}
	if next := s.CheckAt.Sub(s.Since); next != rules.CheckSlow {
		t.Errorf("checked again after %s", next)
	}
	if back := s.CheckPassed(rules, s.CheckAt); back.Phase != HalfOpen {
		t.Errorf("an exhausted server that answers is %s", back.Phase)
	}
}

func TestA401IsNeitherSuccessNorFailure(t *testing.T) {
	o := Observation{}.Add("https://a.example/a", outcome.Outcome{Class: outcome.Unverified, Status: 401})
	if o.Successes+o.Failures != 0 || o.Vain != 1 {
		t.Errorf("the observation is %+v, want neither success nor failure, and one request in vain", o)
	}
}

func TestAPauseHoldsUntilItsEndAndNeverLongerThanTheCap(t *testing.T) {
	s := fresh().Throttle(rules, t0.Add(time.Hour), "429", t0)
	if s.Accepts(t0.Add(time.Hour-1)) || !s.Accepts(t0.Add(time.Hour)) {
		t.Errorf("the state is %+v, want a pause of an hour", s)
	}
	if again := s.Throttle(rules, t0.Add(time.Minute), "429", t0); again != s {
		t.Errorf("a shorter pause replaced it: %+v", again)
	}
	if longest := s.Throttle(rules, t0.Add(1000*time.Hour), "429", t0); !longest.Until.Equal(t0.Add(rules.MaxPause)) {
		t.Errorf("paused until %s", longest.Until)
	}
	s = s.Park(rules, t0)
	if !s.CheckAt.Equal(s.Until) {
		t.Errorf("what is parked is looked after at %s", s.CheckAt)
	}
	if !s.Trying(s.Until) {
		t.Errorf("no trial decides at its end: %+v", s)
	}
	if n, same := s.NextRelease(rules, t0); n != 0 || same != s {
		t.Errorf("%d released in the pause", n)
	}
}

func TestOperatorsRule(t *testing.T) {
	down := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0)
	blocked := down.Block(rules, "spam", t0)
	switch {
	case blocked.Decision(t0.Add(1000*day)) != Refuse, !blocked.Forget.IsZero(), blocked.CheckAt.After(t0):
		t.Errorf("blocked: %+v", blocked)
	case blocked.Throttle(rules, t0.Add(time.Hour), "", t0) != blocked, blocked.Observe(rules, Observation{Failures: 9, Trailing: 9}, t0) != blocked,
		blocked.SaidGone(rules, "", t0) != blocked, blocked.Resume(rules, t0) != blocked, blocked.Pause(rules, time.Time{}, "", t0) != blocked:
		t.Error("something but Unblock changed a blocked server")
	}
	if s := blocked.Unblock(rules, t0); s.Phase != Recovering || s.Decision(t0) != Send || !s.Forget.IsZero() {
		t.Errorf("unblocked: %+v", s)
	}
	paused := fresh().Pause(rules, time.Time{}, "maintenance", t0)
	if paused.Decision(t0.Add(1000*day)) != Wait || !paused.Forget.IsZero() || paused.Throttle(rules, t0.Add(time.Hour), "", t0) != paused {
		t.Errorf("paused: %+v", paused)
	}
	if s := paused.Resume(rules, t0); s.Phase != Healthy {
		t.Errorf("resumed: %+v", s)
	}
	if s := down.Resume(rules, t0); s.Phase != Recovering {
		t.Errorf("resumed from an outage: %+v", s)
	}
	if s := down.CheckNow(rules, t0); !s.CheckAt.Equal(t0) {
		t.Errorf("to be checked now: %+v", s)
	}
	if s := fresh().CheckNow(rules, t0); s != fresh() {
		t.Errorf("a healthy server: %+v", s)
	}
	if s := down.CheckNow(rules, t0); s.CheckNow(rules, t0.Add(time.Second)) != s {
		t.Error("asking twice changes it twice")
	}
}

func TestAnOperatorsRateLimitStaysUntilItIsLifted(t *testing.T) {
	limited := fresh().LimitTo(rules, 60, t0)
	if limited.Limited(t0.Add(1000*day)) != 60 || !limited.Forget.IsZero() || limited.Since.IsZero() || limited.LimitTo(rules, 60, t0) != limited {
		t.Errorf("limited: %+v", limited)
	}
	if s := limited.LearnRate(rules, 6, t0.Add(time.Hour), t0); s != limited {
		t.Errorf("what was learnt replaced it: %+v", s)
	}
	if s := limited.Block(rules, "", t0).Unblock(rules, t0); s.Limited(t0) != 60 {
		t.Errorf("lifted by a block: %+v", s)
	}
	if s := limited.LimitTo(rules, 0, t0); s.Limited(t0) != 0 || s.Forget.IsZero() {
		t.Errorf("lifted: %+v", s)
	}
	learnt := fresh().LearnRate(rules, 6, t0.Add(time.Hour), t0).LimitTo(rules, 60, t0)
	if learnt.Limited(t0.Add(2*time.Hour)) != 60 {
		t.Errorf("set over what was learnt: %+v", learnt)
	}
}

func TestGoneIsBelievedForAWhile(t *testing.T) {
	asked := fresh().SaidGone(rules, "410", t0)
	if asked.Decision(t0) != Send || !asked.Doubt || !asked.CheckAt.Equal(t0) {
		t.Errorf("one 410 condemns: %+v", asked)
	}
	if again := asked.NotGone(rules, t0).SaidGone(rules, "410", t0.Add(time.Hour)); again.Doubt || !again.CheckAt.IsZero() {
		t.Errorf("looked at again after an hour: %+v", again)
	}
	s := asked.ConfirmedGone(rules, "410", t0)
	if s.Decision(t0.Add(rules.GoneFor-1)) != Refuse || s.Decision(t0.Add(rules.GoneFor)) != Send || s.Forget.Before(s.Until) {
		t.Errorf("the state is %+v, want gone for its time", s)
	}
	if s := s.Resume(rules, t0); s.Decision(t0) != Send {
		t.Errorf("the state is %+v, want sending", s)
	}
}

func TestALateSuccessOnlyBringsTheCheckForward(t *testing.T) {
	down := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0)
	if s := down.Observe(rules, Observation{Successes: 1}, t0.Add(time.Second)); s.Phase != Unhealthy || !s.CheckAt.Equal(t0.Add(time.Second)) {
		t.Errorf("the state is %+v, want unhealthy with a check now", s)
	}
}

func TestALotOfHeldGroupsIsLookedAtNowAndThen(t *testing.T) {
	s := fresh().Hold(rules, t0)
	if s.Phase != Healthy || !s.Parked || s.CheckAt.Sub(t0) != rules.CheckSlow {
		t.Fatalf("the state is %+v, want healthy, parked, with a slow check", s)
	}
	now := s.CheckAt
	for i, want := range []time.Duration{5 * time.Minute, 15 * time.Minute, 25 * time.Minute, 35 * time.Minute, 45 * time.Minute, day, day} {
		_, s = s.NextRelease(rules, now)
		if s = s.Stuck(rules, now); s.Phase != Healthy || s.CheckAt.Sub(now) != want {
			t.Fatalf("look %d: next after %s, want %s", i, s.CheckAt.Sub(now), want)
		}
		now = s.CheckAt
	}
	if again := s.Hold(rules, now); again != s {
		t.Errorf("another group changes the state: %+v", again)
	}
}

func TestTheHeadOfAGroupHasQuickWaitsForAsLongAsTheyTake(t *testing.T) {
	age := 75 * time.Second // of the tries before
	for n, want := range []time.Duration{5 * time.Minute, 15 * time.Minute, 25 * time.Minute, 35 * time.Minute, 45 * time.Minute, day, day} {
		got := rules.HeldWait(n, age)
		if got != want {
			t.Errorf("the head of a group waits %s after %d waits, want %s", got, n, want)
		}
		age += got
	}
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: 45 * time.Minute, 0: 45 * time.Minute, 124 * time.Minute: 45 * time.Minute, 125 * time.Minute: day, 6 * day: day,
	} {
		if got := rules.HeldWait(100, age); got != want {
			t.Errorf("a head that has been due for %s waits %s after many tries, want %s", age, got, want)
		}
	}
	if got := rules.HeldWait(-5, 6*day); got != 5*time.Minute {
		t.Errorf("a head that has waited elsewhere for days waits %s at first", got)
	}
}

func TestAServerThatThrottlesAgainAndAgainIsPausedForLonger(t *testing.T) {
	s, now := fresh().Park(rules, t0), t0
	var pauses []time.Duration
	for range 12 {
		s = s.Throttle(rules, now.Add(time.Second), "429", now)
		if late := s.Throttle(rules, now.Add(time.Second), "429", now.Add(time.Second/2)); late != s {
			t.Fatalf("a late answer counts: %+v", late)
		}
		pauses = append(pauses, s.Until.Sub(now))
		now = s.Until
		if !s.Trying(now) {
			t.Fatalf("after %d pauses: not on trial", len(pauses))
		}
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		if pauses[i] != want {
			t.Errorf("pause %d takes %s, want %s", i, pauses[i], want)
		}
	}
	if last := pauses[len(pauses)-1]; last != rules.MaxPause {
		t.Errorf("the last pause takes %s", last)
	}
	if s = s.TrialPassed(rules, "", now); s.Throttles != 0 || !s.Accepts(now) {
		t.Errorf("after a success: %+v", s)
	}
	if s = s.Throttle(rules, now.Add(time.Second), "429", now); s.Until.Sub(now) != time.Second {
		t.Errorf("after a success it is paused until %s", s.Until)
	}
}

func TestADeliveryParkedWhileTheServerRecoversIsReleased(t *testing.T) {
	s := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0)
	if got := s.Missed(rules, t0); got != s {
		t.Errorf("still down: %+v", got)
	}
	for name, s := range map[string]State{"drained": s.Resume(rules, t0).Drained(rules, t0), "no record": fresh(), "recovering": s.Resume(rules, t0)} {
		if got := s.Missed(rules, t0); got.Phase != Recovering || !got.Parked || got.CheckAt.After(t0) || !got.Forget.IsZero() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHostOfAKey(t *testing.T) {
	if h, whole := HostOf(HostKey("a.example:8443")); h != "a.example:8443" || !whole {
		t.Errorf("host %q, whole %t; want a.example:8443, true", h, whole)
	}
	if h, whole := HostOf(InboxKey("https://A.example/inbox")); h != "a.example" || whole {
		t.Errorf("host %q, whole %t; want a.example, false", h, whole)
	}
}
