package circuit

import (
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

func TestThreeInboxesThatRefuseAKeyOpenTheCircuitOfTheHostAndTheKey(t *testing.T) {
	refused := answered(outcome.Unverified, 401)
	by := func(n int) Observation { return UnverifiedBy(inbox(n), "", refused) }
	took := Observation{}.Add(inbox(9), ok())
	for _, c := range []struct {
		name string
		seen []Observation
		open bool
	}{
		{"one, again and again", []Observation{by(1), by(1), by(1), by(1), by(1), by(1)}, false},
		{"two", []Observation{by(1), by(2), by(1), by(2)}, false},
		{"three", []Observation{by(1), by(2), by(3)}, true},
		{"three at once", []Observation{by(1).Then(by(2)).Then(by(3))}, true},
		{"three, and one takes it in between", []Observation{by(1), by(2), took, by(3)}, false},
	} {
		s, now := State{Key: SignedHostKey("a.example", KeyDigest("k"))}, t0
		for _, o := range c.seen {
			now = now.Add(time.Hour)
			s = s.Observe(rules, o, now)
		}
		if s.Accepts(now) == c.open {
			t.Errorf("%s: %+v", c.name, s)
		}
		if c.open && s.TriedLately(inbox(1))*s.TriedLately(inbox(2))*s.TriedLately(inbox(3)) == 0 {
			t.Errorf("%s: the first trial may go to one that refused the key: %q", c.name, s.Tried)
		}
	}
	if host, whole := HostOf(SignedHostKey("a.example:8443", KeyDigest("k"))); host != "a.example:8443" || whole {
		t.Errorf("the host of the state is %q, and the state is of the whole: %t", host, whole)
	}
}

func TestTrialsOfKeysOpenTheCircuitOfTheirHostLater(t *testing.T) {
	s, requests := fresh(), 0
	for ; s.Accepts(t0); requests++ {
		s = s.Observe(rules, InVain(answered(outcome.Unverified, 401)), t0)
	}
	if requests != 38 {
		t.Errorf("open after %d trials in vain: %+v", requests, s)
	}
	s = fresh()
	for range rules.opensAt() {
		s = s.Observe(rules, InVain(answered(outcome.Unverified, 401)), t0)
	}
	if s = s.Observe(rules, Observation{}.Add(inbox(1), answered(outcome.Unverified, 401)), t0); s.Accepts(t0) {
		t.Errorf("another request in vain leaves the circuit closed: %+v", s)
	}
}

func TestAPauseThatATrialOfAKeyIsAskedForIsNotThatOfTheKey(t *testing.T) {
	s := State{Key: SignedHostKey("a.example", KeyDigest("k"))}
	for n := range slowInboxes {
		s = s.Observe(rules, UnverifiedBy(inbox(n), "", answered(outcome.Unverified, 401)), t0)
	}
	s = s.Park(rules, t0)
	s = s.CheckPassed(rules, t0).TrialSent(rules, inbox(7), false, Sweep{}, t0).TrialThrottled(rules, false, t0.Add(time.Hour), "429", t0)
	if s.Phase != Recovering {
		t.Errorf("the state is %+v, want recovering", s)
	}
}
