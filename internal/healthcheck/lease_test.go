package healthcheck_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// afterSave calls then once, after a state was saved under key.
type afterSave struct {
	circuit.Store
	key  string
	then func()
}

func (a *afterSave) SaveServer(ctx context.Context, s circuit.State) (circuit.State, error) {
	saved, err := a.Store.SaveServer(ctx, s)
	if then := a.then; then != nil && s.Key == a.key && err == nil {
		a.then = nil
		then()
	}
	return saved, err
}

// TestAnOrderedDeliveryDoesNotWaitForTheLeaseOfACheck: a worker that finds the check of an
// inbox under way takes the lease of that check for the time of the next one. A check of an
// inbox waits for no answer, so it is over at once, and the delivery goes on soon after.
func TestAnOrderedDeliveryDoesNotWaitForTheLeaseOfACheck(t *testing.T) {
	const inbox = "https://a.example/inbox"
	rules := circuit.Rules{RampEvery: time.Second}.Complete()
	w := world.New(t, world.Options{Rules: rules})
	open := func(key string, f func(circuit.State) circuit.State) {
		t.Helper()
		if _, _, err := circuit.Change(t.Context(), w.Store, key, f); err != nil {
			t.Fatal(err)
		}
	}
	open(circuit.HostKey("a.example"), func(s circuit.State) circuit.State { return s.InboxFault(rules, w.Clock.Now()) })
	open(circuit.InboxKey(inbox), func(s circuit.State) circuit.State {
		return s.Fault(rules, outcome.ReasonNone, "answered 500", w.Clock.Now())
	})
	w.Clock.Advance(rules.CheckSoon)

	var id activity.ID
	servers := &afterSave{Store: w.Store, key: circuit.InboxKey(inbox), then: func() {
		a := w.Activity("Update")
		a.OrderingKey = "a"
		id = w.Send(a, inbox)
		w.Work()
	}}
	began := w.Clock.Now()
	r := runner(w, &counting{}, func(c *healthcheck.Config) { c.Servers, c.Rules = servers, rules })
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ps, _, _, err := w.Config().Lot.Next(t.Context(), circuit.HostKey("a.example"), circuit.Sweep{}, 2)
	if err != nil || len(ps) != 1 || ps[0].Activity.ID != id {
		t.Fatalf("parked: %s, %v", world.Brief(ps), err)
	}
	if wait := ps[0].Due.Sub(began); wait <= 0 || wait > 2*rules.RampEvery {
		t.Errorf("the delivery waits for %v", wait)
	}
}

// blocked answers no probe before its channel is closed.
type blocked chan struct{}

func (b blocked) Probe(context.Context, string) outcome.Outcome {
	<-b
	return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout}
}

// TestTheCheckOfAnInboxWaitsForNoProbe: strangers have thousands of hosts that hang, and the hosts
// of the inboxes are well.
func TestTheCheckOfAnInboxWaitsForNoProbe(t *testing.T) {
	w := world.New(t, world.Options{})
	rules := circuit.Default()
	fault := func(s circuit.State) circuit.State {
		return s.Fault(rules, outcome.Timeout, "", w.Clock.Now()).Park(rules, w.Clock.Now())
	}
	var inboxes []string
	for i := range 20 {
		inboxes = append(inboxes, circuit.InboxKey(fmt.Sprintf("https://well%d.example/inbox", i)))
		for _, key := range []string{inboxes[i], circuit.HostKey(fmt.Sprintf("hangs%d.example", i))} {
			if _, _, err := circuit.Change(t.Context(), w.Store, key, fault); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Clock.Advance(rules.CheckSoon)
	probes, ended := make(blocked), make(chan error)
	r := runner(w, probes, func(c *healthcheck.Config) { c.Rules, c.Probes = rules, 2 })
	go func() { ended <- r.Run(t.Context()) }()
	began := time.Now()
	for _, key := range inboxes {
		for state(t, w, key).Phase == circuit.Unhealthy && time.Since(began) < 5*time.Second {
			time.Sleep(time.Millisecond)
		}
		if s := state(t, w, key); s.Phase == circuit.Unhealthy {
			t.Errorf("while probes hang, nobody looks at %s", world.Brief(s))
		}
	}
	close(probes)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
