package circuit

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

func TestATrialDecidesAndThenTheReleaseGrows(t *testing.T) {
	s := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0).CheckPassed(rules, t0.Add(time.Minute))
	if s.Phase != HalfOpen || s.Accepts(s.CheckAt) || !s.Trying(s.CheckAt) {
		t.Fatalf("the state is %+v, want half open", s)
	}
	s = s.TrialSent(rules, "https://a.example/1", false, Sweep{Shard: 1}, t0)
	if s.TriedLately("https://a.example/1") == 0 || s.TriedLately("https://a.example/2") > 0 || s.CheckAt.Sub(t0) != rules.TrialTimeout {
		t.Errorf("the state is %+v, want only inbox 1 tried, and a check after the trial's timeout", s)
	}
	s = s.TrialPassed(rules, "", t0)
	if s.Phase != Recovering || !s.Accepts(t0) || s.CheckAt.After(t0) || !s.DownSince.IsZero() {
		t.Fatalf("the state is %+v, want recovering", s)
	}
	var steps []int
	now := t0
	for range 6 {
		var n int
		n, s = s.NextRelease(rules, now)
		steps = append(steps, n)
		now = s.CheckAt
	}
	want := []int{10, 50, 250, 1000, 1000, 1000}
	for i := range want {
		if steps[i] != want[i] {
			t.Fatalf("released %v, want %v", steps, want)
		}
	}
	if s = s.Drained(rules, now); s.Phase != Healthy || s.Parked || s.CheckAt.IsZero() {
		t.Errorf("before the second look: %+v", s)
	}
	if s = s.Emptied(rules, now); s.Phase != Healthy || s.Parked || !s.CheckAt.IsZero() {
		t.Errorf("after the second look: %+v", s)
	}
}

// The schedule runs each minute, and decides a moment after it begins: with steps a whole minute
// apart, every other run would find nothing due.
func TestEachRunOfTheScheduleReleases(t *testing.T) {
	began := t0
	s := fresh().Park(rules, began)
	for range 3 {
		decides := began.Add(2 * time.Second)
		if s.CheckAt.After(began) && !began.Equal(t0) {
			t.Errorf("the next step is due %s after the run, want at it", s.CheckAt.Sub(began))
		}
		_, s = s.NextRelease(rules, decides)
		began = began.Add(rules.RampEvery)
	}
}

func TestAFailedTrialIsAFailedCheckUnlessTheHostAnswered(t *testing.T) {
	open := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0)
	trial := open.CheckPassed(rules, t0).TrialSent(rules, "a", false, Sweep{}, t0)
	ofInbox := trial
	ofInbox.Key = InboxKey("https://m.example/inbox")
	if s := ofInbox.TrialFailed(rules, outcome.ReasonNone, "answered 401", t0); s.Phase != Unhealthy || s.Checks != 1 {
		t.Errorf("an inbox is tried again in the same check, where there is no other to try: %+v", s)
	}
	if s := trial.TrialFailed(rules, outcome.ConnRefused, "refused", t0); s.Phase != Unhealthy || s.Checks != 1 || s.CheckAt.Sub(t0) != 5*time.Minute {
		t.Errorf("the state is %+v, want unhealthy, the next check in 5 minutes", s)
	}
	s := trial
	for i := range rules.Trials - 1 {
		s = s.TrialFailed(rules, []outcome.Reason{outcome.ReasonNone, outcome.ConnReset}[i%2], "answered 500", t0)
		if s.Phase != HalfOpen || s.CheckAt.After(t0) {
			t.Fatalf("after %d trials: %+v", i+1, s)
		}
		s = s.TrialSent(rules, "b", false, Sweep{}, t0)
	}
	if s = s.TrialFailed(rules, outcome.ReasonNone, "answered 500", t0); s.Phase != Unhealthy || s.Checks != 1 {
		t.Errorf("the state is %+v, want unhealthy after one check", s)
	}
	if s := trial.TrialVoid(rules, t0); s.Phase != HalfOpen || s.CheckAt.After(t0) || s.Checks != 0 {
		t.Errorf("the state is %+v, want half open, a check now, and none counted", s)
	}
}

func TestAnOutageAfterAnUnverifiedTrialGoesOnFromItsCounts(t *testing.T) {
	down, now := see(fresh().Park(rules, t0), "abcde", t0)
	for range 3 {
		now = down.CheckAt
		down = down.CheckFailed(rules, outcome.Timeout, "", now)
	}
	onTrial := down.CheckPassed(rules, down.CheckAt).TrialSent(rules, "https://a.example/a", false, Sweep{}, down.CheckAt)
	answered := onTrial.TrialAnswered(rules, now)
	if answered.Phase != Recovering || answered.Checks != 0 || answered.Unproven != 3 {
		t.Fatalf("after an answered trial: %+v", answered)
	}

	again, at := see(answered, "abcde", now)
	if wait := again.CheckAt.Sub(at.Add(-time.Second)); again.Phase != Unhealthy || wait != rules.CheckFirst+2*rules.CheckStep {
		t.Errorf("the next outage is checked after %s, as if it were the first: %+v", wait, again)
	}
	accepted, at := see(answered, "A", now)
	if accepted.Unproven != 0 {
		t.Errorf("after a success: %+v", accepted)
	}
	if fresh, at := see(accepted, "abcde", at); fresh.CheckAt.Sub(at.Add(-time.Second)) != rules.CheckSoon {
		t.Errorf("an outage after a success goes on from the counts of the one before: %+v", fresh)
	}
	if passed := onTrial.TrialPassed(rules, "", now); passed.Unproven != 0 {
		t.Errorf("after a trial that was accepted: %+v", passed)
	}
	if resumed := again.Resume(rules, at); resumed.Unproven != 0 {
		t.Errorf("after an operator said so: %+v", resumed)
	}
	if down.TrialAnswered(rules, now) != down {
		t.Error("a server that is not on trial is changed")
	}
}

func TestPausesGoOnGrowingAfterAnUnverifiedTrial(t *testing.T) {
	s, now := fresh().Park(rules, t0), t0
	for range 4 {
		s = s.Throttle(rules, now.Add(time.Second), "", now)
		now = s.Until
	}
	s = s.TrialAnswered(rules, now)
	if s.Phase != Recovering {
		t.Fatalf("the state is %+v, want recovering", s)
	}
	s = s.Throttle(rules, now.Add(time.Second), "", now)
	if pause := s.Until.Sub(now); pause != 8*rules.Throttled {
		t.Errorf("the fifth pause in a row lasts %s", pause)
	}
}

func TestAThrottledTrialSaysThatTheServerIsAlive(t *testing.T) {
	s := fresh().Fault(rules, outcome.Timeout, "", t0).Park(rules, t0).CheckPassed(rules, t0)
	s = s.Throttle(rules, t0.Add(time.Hour), "429", t0)
	if s.Phase != Paused || !s.DownSince.IsZero() || !s.CheckAt.Equal(t0.Add(time.Hour)) {
		t.Errorf("the state is %+v, want paused for an hour and not down", s)
	}
}

// TestAServerThatWasGoneIsOnNoTrialForEarlierPauses: the end of its time as gone is not
// the end of a pause.
func TestAServerThatWasGoneIsOnNoTrialForEarlierPauses(t *testing.T) {
	s := fresh()
	for range 3 {
		s = s.Throttle(rules, t0.Add(time.Minute), "429", t0)
	}
	s.Throttles = 3
	s = s.ConfirmedGone(rules, "410", t0)
	if got := s.Decision(t0.Add(time.Hour)); got != Refuse {
		t.Errorf("while the server is gone the decision is %d, want Refuse", got)
	}
	if got := s.Decision(t0.Add(48 * time.Hour)); got != Send {
		t.Errorf("after its time as gone the decision is %d, want Send", got)
	}
}

// An inbox that fails is to blame itself while another of its server takes what it gets.
func TestAServerWorksWhileTheInboxThatAcceptedLastFailsNothing(t *testing.T) {
	const inbox, page = "https://a.example/inbox", "https://a.example/page"
	failed := outcome.Outcome{Class: outcome.Retry, Status: 302}
	o := Observation{}.Add(inbox, ok())
	for n := range rules.OpenAfter {
		o = o.Add(fmt.Sprint(page, n), failed)
	}
	s := State{Key: HostKey("a.example")}.Observe(rules, o, t0).Park(rules, t0)
	if s.Phase != Unhealthy || !s.TookLast(inbox) || s.Works() {
		t.Fatalf("the state is %+v, want unhealthy, and nothing that works", s)
	}
	if !s.Blames(page, failed) || s.Blames(inbox, failed) || s.Blames(page, outcome.Outcome{Class: outcome.Retry, Reason: outcome.DNS}) {
		t.Error("blamed on the wrong one")
	}
	now := t0.Add(rules.CheckSoon)
	s = s.CheckPassed(rules, now)
	for n := range rules.Trials {
		s = s.TrialSent(rules, fmt.Sprint(page, n), false, Sweep{}, now).TrialFailed(rules, "", "answered 302", now)
	}
	if s.Phase != Unhealthy || !s.Works() {
		t.Fatalf("the state is %+v, want unhealthy, and an inbox that works", s)
	}
	lapsed := s.Observe(rules, Observation{}.Add(inbox, fault(500)), now)
	if lapsed.Works() || lapsed.Blames(page, failed) || !lapsed.TookLast(inbox) {
		t.Errorf("after a failure: %+v", lapsed)
	}
	if again := lapsed.Observe(rules, Observation{}.Add(inbox, ok()), now); !again.Works() || !again.CheckAt.Equal(now) {
		t.Errorf("after another success: %+v", again)
	}
	for _, age := range []time.Duration{time.Minute, time.Hour, 5 * time.Hour} {
		s := s
		s.Since, s.CheckAt = s.DownSince.Add(age), s.DownSince.Add(30*time.Hour)
		next := s.DownSince.Add(2 * age)
		if got := s.Observe(rules, Observation{}.Add(inbox, ok()), s.Since.Add(time.Second)); !got.CheckAt.Equal(next) {
			t.Errorf("a success after a check at the age of %s makes a check due at %s", age, got.CheckAt.Sub(s.DownSince))
		}
		if late := next.Add(time.Hour); !s.Observe(rules, Observation{}.Add(inbox, ok()), late).CheckAt.Equal(late) {
			t.Errorf("a success an hour after twice the age of %s makes no check due at once", age)
		}
		s.CheckAt = s.Since.Add(2 * time.Second)
		if got := s.Observe(rules, Observation{}.Add(inbox, ok()), s.Since.Add(time.Second)); !got.CheckAt.Equal(s.CheckAt) {
			t.Error("a success puts a check off")
		}
	}
	onTrial := s.CheckPassed(rules, now).TrialSent(rules, inbox, false, Sweep{}, now)
	if s := onTrial.TrialFailed(rules, "", "answered 500", now); !s.Lapsed {
		t.Errorf("after a failed trial: %+v", s)
	}
	if s := onTrial.TrialPassed(rules, "https://a.example/other", now); s.Phase != Recovering || !s.TookLast("https://a.example/other") {
		t.Errorf("after a trial that another inbox has passed: %+v", s)
	}
}

// A check tries one inbox after another, which takes minutes. The server works during it,
// too, unless the inbox that accepted last is itself on trial or fails meanwhile.
func TestAServerWorksDuringACheckThatTriesOthers(t *testing.T) {
	const inbox, page = "https://a.example/inbox", "https://a.example/page"
	s := State{Key: HostKey("a.example")}.Fault(rules, "", "answered 302", t0).Park(rules, t0).took(inbox)
	now := t0.Add(rules.CheckSoon)
	s = s.CheckPassed(rules, now)
	if s.Phase != HalfOpen || s.Works() {
		t.Fatalf("before a trial: %+v", s)
	}
	if s := s.TrialSent(rules, inbox, false, Sweep{}, now); s.Works() {
		t.Errorf("while the inbox itself is on trial: %+v", s)
	}
	others := s.TrialSent(rules, page, false, Sweep{}, now)
	if !others.Works() {
		t.Errorf("while another is on trial: %+v", others)
	}
	next := others.TrialFailed(rules, "", "answered 302", now)
	if !next.Works() || !next.TrialSent(rules, page+"2", false, Sweep{}, now).Works() || next.TrialSent(rules, inbox, false, Sweep{}, now).Works() {
		t.Errorf("after another has failed its trial: %+v", next)
	}
	if s := others.Observe(rules, Observation{}.Add(page, fault(500)), now); !s.Works() {
		t.Errorf("after another has failed: %+v", s)
	}
	failed := others.Observe(rules, Observation{}.Add(inbox, fault(500)), now)
	if failed.Phase != HalfOpen || failed.Works() || !failed.CheckAt.Equal(others.CheckAt) {
		t.Errorf("after the inbox has failed: %+v", failed)
	}
	// After several pauses one delivery decides, whoever accepted the last one.
	paused := State{Key: HostKey("a.example")}.took(inbox).Throttle(rules, t0.Add(time.Minute), "429", t0)
	again := paused.Until
	paused = paused.Throttle(rules, again.Add(time.Minute), "429", again).Park(rules, again)
	if s := paused.TrialSent(rules, page, false, Sweep{}, paused.Until); s.Phase != HalfOpen || s.Trials != 1 || s.Works() {
		t.Errorf("on trial after two pauses: %+v", s)
	}
}

// A queue that lags may have several trials under way, in processes that do not know each other's
// outcomes yet.
func TestATrialThatEndsAfterAnotherHasFailedCountsAgainstTheBudget(t *testing.T) {
	o := answered(outcome.Unverified, 401)
	o.Requests = 2
	s := fresh().Park(rules, t0).spend(rules, rules.opensAt(), t0).Fault(rules, outcome.ReasonNone, "", t0).CheckPassed(rules, t0)
	s = s.TrialSent(rules, inbox(0), true, Sweep{}, t0)
	for range 3 {
		s = s.TrialEnded(rules, activity.Target{Inbox: inbox(0)}, o, t0.Add(time.Minute))
	}
	if want := rules.opensAt() + 6; s.Vain != want || s.Checks != 1 {
		t.Errorf("%d requests in vain and %d failed checks, want %d and 1", s.Vain, s.Checks, want)
	}
}
