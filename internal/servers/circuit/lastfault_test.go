package circuit

import (
	"testing"

	"fedpost/internal/activity/outcome"
)

// TestAHealthyServerSaysWhatWentWrongLast, until it accepts a delivery again.
func TestAHealthyServerSaysWhatWentWrongLast(t *testing.T) {
	fault := Observation{}.Add("https://a.example/inbox", outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnRefused, Err: "connection refused"})
	s := State{Key: HostKey("a.example"), Phase: Healthy}.Observe(rules, fault, t0)
	if s.Phase != Healthy || s.Reason != outcome.ConnRefused || s.Why != "connection refused" || s.Streak != 1 {
		t.Errorf("after a fault it is %s, %d in a row, says %q: %q", s.Phase, s.Streak, s.Reason, s.Why)
	}
	s = s.Observe(rules, Observation{}.Add("https://a.example/inbox", outcome.Outcome{Class: outcome.Delivered, Status: 202}), t0)
	if s.Phase != Healthy || s.Reason != "" || s.Why != "" {
		t.Errorf("after a delivery it is %s, says %q: %q", s.Phase, s.Reason, s.Why)
	}
}

func TestTheStateOfASigningKeyNamesIt(t *testing.T) {
	const key = "https://us.example/users/frida#main-key"
	s := State{Key: InboxKey("https://a.example/inbox#key-0123456789ab"), Phase: Healthy}
	for range rules.OpenAfter {
		s = s.Observe(rules, Unverified(key, outcome.Outcome{Class: outcome.Unverified, Status: 401, Err: "answered 401"}), t0)
	}
	if s.Phase != Unhealthy || s.KeyID != key {
		t.Errorf("it is %s and names %q", s.Phase, s.KeyID)
	}
}
