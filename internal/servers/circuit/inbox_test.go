package circuit

import (
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

// TestAnInboxThatVerifiesNoneIsCheckedLessAndLessOften although nothing is parked under
// it: its ordered deliveries wait under its host, and each check lets the next of them try.
func TestAnInboxThatVerifiesNoneIsCheckedLessAndLessOften(t *testing.T) {
	refused := Unverified("", outcome.Outcome{Class: outcome.Unverified, Status: 401, Err: "answered 401"})
	s, now := State{Key: InboxKey("https://a.example/inbox#key-1"), Phase: Healthy}, t0
	for range rules.OpenAfter - 1 {
		if s = s.Observe(rules, refused, now); !s.Accepts(now) {
			t.Fatalf("open after %d", s.Streak)
		}
	}
	for n, want := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 25 * time.Minute, 35 * time.Minute, 45 * time.Minute, day, day} {
		s = s.Observe(rules, refused, now)
		if wait := s.CheckAt.Sub(now); s.Phase != Unhealthy || wait != want {
			t.Fatalf("outage %d: %s, checked after %s, want %s", n+1, s.Phase, wait, want)
		}
		now = s.CheckAt
		if s = s.CheckPassed(rules, now); !s.Accepts(now) {
			t.Fatalf("outage %d lets no delivery try: %+v", n+1, s)
		}
	}
	s = s.Observe(rules, Observation{Successes: 1}, now)
	if s = s.Observe(rules, refused, now); !s.Accepts(now) {
		t.Errorf("after a success one 401 opens the circuit: %+v", s)
	}
}
