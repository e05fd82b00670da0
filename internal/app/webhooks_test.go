package app

import (
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/memory"
)

// TestAWebhookThatIsPutOrTestedIsTriedAtOnce: its server was down, and the operator knows
// better. What an operator has paused or blocked stays so.
func TestAWebhookThatIsPutOrTestedIsTriedAtOnce(t *testing.T) {
	now := time.Now()
	rules := circuit.Rules{}.Complete()
	const url = "https://app.example/hooks"
	down := func(s circuit.State) circuit.State { return s.Fault(rules, outcome.Timeout, "answered 501", now) }
	for name, c := range map[string]struct {
		key    string
		before func(circuit.State) circuit.State
		want   bool
	}{
		"the host is down": {circuit.HostKey("app.example"), down, true},
		"the URL fails":    {circuit.InboxKey(url), down, true},
		"the host is paused by an operator": {circuit.HostKey("app.example"), func(s circuit.State) circuit.State {
			return s.Pause(rules, time.Time{}, "maintenance", now)
		}, false},
		"the host is blocked": {circuit.HostKey("app.example"), func(s circuit.State) circuit.State { return s.Block(rules, "spam", now) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Ports{Table: memory.New(func() time.Time { return now }, nil).Table(), Now: func() time.Time { return now }}
			if _, before, err := circuit.Change(t.Context(), p.store(), c.key, c.before); err != nil || before.Accepts(now) {
				t.Fatalf("before: %+v, %v", before, err)
			}
			if err := p.reopen(t.Context(), rules, url); err != nil {
				t.Fatal(err)
			}
			_, after, err := circuit.Change(t.Context(), p.store(), c.key, func(s circuit.State) circuit.State { return s })
			if err != nil || after.Accepts(now) != c.want {
				t.Errorf("deliveries are accepted afterwards: %t (%v), want %t: %+v", after.Accepts(now), err, c.want, after)
			}
		})
	}
}
