package healthcheck_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/healthcheck"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/world"
)

// distant is a queue that takes as long to answer as one in a data centre.
type distant struct{ queue.Sender }

func (d distant) Send(ctx context.Context, m queue.Message) error {
	time.Sleep(10 * time.Millisecond) // virtual
	return d.Sender.Send(ctx, m)
}

func (d distant) SendBatch(ctx context.Context, ms []queue.Message) []error {
	time.Sleep(10 * time.Millisecond) // virtual
	return d.Sender.SendBatch(ctx, ms)
}

// However many ordered groups of strangers' servers go on in a run, the servers that are due have
// their turns in it.
func TestManyHeadsHoldUpNoChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, world.Options{Engine: engines.Maps(), Now: time.Now})
		now := time.Now()
		var heads []parking.Parked
		for i := range 6000 {
			a := w.Activity("Update")
			a.ID, a.OrderingKey = activity.ID(fmt.Sprintf("head%d", i)), "a"
			host := fmt.Sprintf("many%d.example", i)
			heads = append(heads, parking.Parked{
				Key: circuit.HostKey(host), Activity: a, Since: now, GiveUp: now.Add(time.Hour), Due: now,
				Delivery: message.Delivery{Position: message.Whole, Targets: []activity.Target{{Inbox: "https://" + host + "/inbox"}}},
				Group:    message.GroupOf(a, host), Sequence: fmt.Sprintf("%024d", i),
			})
		}
		lot := *w.Config().Lot
		if err := lot.Store.Park(t.Context(), heads); err != nil {
			t.Fatal(err)
		}
		down := circuit.State{Key: circuit.HostKey("back.example")}.Fault(circuit.Default(), outcome.Timeout, "no answer", now).Park(circuit.Default(), now)
		if _, err := w.Raw().SaveServer(t.Context(), down); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * minut)
		near := lot.Queues
		lot.Queues = func(n queue.Name) queue.Sender { return distant{near(n)} }
		p := &counting{}
		r := runner(w, p, func(c *healthcheck.Config) { c.Lot = &lot })
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("%.200s", err)
		}
		if p.n.Load() == 0 {
			t.Error("the run had no time for a check")
		}
	})
}
