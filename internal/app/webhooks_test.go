package app

import (
	"context"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/memory"
)

// TestAWebhookThatIsPutOrTestedIsTriedAtOnce: its server was down, and the operator knows that it
// is back. What an operator has paused or blocked stays so.
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

// TestAServerOfAWebhookIsNotProbed: one that was down came back with 503 to GET and 204 to POST.
func TestAServerOfAWebhookIsNotProbed(t *testing.T) {
	s := Ports{Table: memory.New(time.Now, nil).Table()}.store()
	if _, err := s.SaveWebhook(t.Context(), webhook.Webhook{ID: "app", URL: "https://app.example:8443/hooks"}); err != nil {
		t.Fatal(err)
	}
	p := prober{asked{}, s.OfWebhook}
	for host, want := range map[string]int{"app.example:8443": 0, "app.example": 503, "other.example": 503} {
		if o := p.Probe(t.Context(), host); o.Status != want {
			t.Errorf("the probe of %s is %+v, want status %d", host, o, want)
		}
	}
}

// asked is a Prober of servers that answer 503.
type asked struct{}

func (asked) Probe(context.Context, string) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Retry, Status: 503}
}
