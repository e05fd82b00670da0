package healthcheck_test

import (
	"context"
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
