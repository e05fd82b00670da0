package deadletter_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestCostOfServersThatAreDown counts what a recipient costs whose server is down for a
// day, and one whose server stays down until the recipient is dead: 50 activities to 20
// such servers each. The cost model has these figures.
func TestCostOfServersThatAreDown(t *testing.T) {
	const activities, hosts = 50, 20
	const n = activities * hosts
	for _, c := range []struct {
		name  string
		typ   queue.Type
		down  time.Duration
		ends  activity.State
		model cost.Use
	}{
		{"a day", queue.Standard, 24 * time.Hour, activity.Delivered, cost.DownADay},
		{"for good", queue.Standard, 0, activity.Dead, cost.DownForGood},
		// A FIFO queue has no delays to spread releases by: they are received once more, and
		// handed back. The second receive looks for what a first one that failed may have parked.
		{"a day, with FIFO queues", queue.FIFO, 24 * time.Hour, activity.Delivered, cost.Use{SQS: cost.DownADay.SQS + 2, Writes: cost.DownADay.Writes, Reads: cost.DownADay.Reads + 3}},
		{"for good, with FIFO queues", queue.FIFO, 0, activity.Dead, cost.Use{SQS: 3.4, Writes: 8.6, Reads: 12.2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !long.On() && c.typ == queue.FIFO {
				t.Skip("takes minutes under the race detector")
			}
			plan, estimate := faults.NewPlan(), cost.NewEstimate()
			w := world.New(t, world.Options{QueueType: c.typ, Rules: circuit.Default(), Plan: plan, Table: func(tbl table.Table) table.Table { return cost.EstimateTable(estimate, tbl) }})
			w.Servers.Spare()
			config := w.Config()
			config.DeadLetters = deadletter.Writer{
				Store: w.Store, Queues: func(q queue.Name) queue.Sender { return config.Queues(q) }, Keep: 30 * 24 * time.Hour,
			}
			w.Deliver = deliver.New(config)
			var to []string
			for i := range hosts {
				host := fmt.Sprintf("down%d.example", i)
				w.Servers.Script(host, world.Down)
				to = append(to, "https://"+host+"/inbox")
			}
			var ids []activity.ID
			for range activities {
				ids = append(ids, w.Send(w.Activity("Create"), to...))
				w.Run(10*time.Minute, time.Minute)
			}
			if c.down > 0 {
				w.Run(c.down-activities*10*time.Minute, time.Minute)
				for i := range hosts {
					w.Servers.Script(fmt.Sprintf("down%d.example", i), nil)
				}
			}
			w.Run(9*24*time.Hour, time.Minute)
			for _, id := range ids {
				for inbox, r := range w.States(id) {
					if r.State != c.ends {
						t.Fatalf("%s is %s", inbox, r.State)
					}
				}
			}
			// The caller's own records and sends are beside the plan.
			used := estimate.Snapshot().Service("DynamoDB")
			sends, settled := 0, 0
			for _, call := range plan.Calls() {
				switch call.Op {
				case "SendBatch", "Send":
					sends += (call.Entries + 9) / 10
				case "Delete":
					settled++
				case "ChangeVisibility":
					settled++
				}
			}
			// Each message that is settled was received; a receive brings a few.
			got := cost.Use{SQS: float64(sends+2*settled) / n, Writes: used.WriteUnits / n, Reads: used.ReadUnits / n}
			t.Logf("%d recipients of servers that are down %s: %+v each, model %+v; %d requests to them", n, c.name, got, c.model, len(w.Servers.Got()))
			for _, p := range []struct {
				what       string
				got, model float64
			}{{"SQS requests", got.SQS, c.model.SQS}, {"write units", got.Writes, c.model.Writes}, {"read units", got.Reads, c.model.Reads}} {
				if p.got > 1.1*p.model+0.05 || p.got < 0.8*p.model-0.05 {
					t.Errorf("%.3f %s a recipient, the model has %.3f", p.got, p.what, p.model)
				}
			}
		})
	}
}

// TestCostOfARevival holds what docs/costs.md says of servers that come back after their
// deliveries have died: what a delivery costs from then on, and a day of waiting.
func TestCostOfARevival(t *testing.T) {
	const n = 200
	estimate := cost.NewEstimate()
	back := 20 * oneDay
	w := newComeback(t, world.Options{Table: func(tbl table.Table) table.Table { return cost.EstimateTable(estimate, tbl) }}, for60(back))
	ids := w.send(n)
	w.Run(9*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Dead] != n {
		t.Fatalf("states %v, want all %d dead", got, n)
	}
	used := func(during func()) (writes, reads float64) {
		before := estimate.Snapshot().Service("DynamoDB")
		during()
		after := estimate.Snapshot().Service("DynamoDB")
		return after.WriteUnits - before.WriteUnits, after.ReadUnits - before.ReadUnits
	}
	writes, reads := used(func() { w.Run(10*oneDay, time.Minute) })
	t.Logf("a day of waiting costs %.1f write units and %.1f read units", writes/10, reads/10)
	if writes/10 > 4.5 || reads/10 > 20 {
		t.Errorf("a day of waiting costs %.1f write units and %.1f read units", writes/10, reads/10)
	}
	writes, reads = used(func() { w.Run(3*oneDay, time.Minute) })
	if got := w.states(ids); got[activity.Delivered] != n {
		t.Fatalf("states %v, want all %d delivered", got, n)
	}
	t.Logf("a revived delivery costs %.2f write units and %.2f read units until it is delivered", writes/n, reads/n)
	if writes/n > 7.5 || reads/n > 10.5 {
		t.Errorf("a revived delivery costs %.2f write units and %.2f read units", writes/n, reads/n)
	}
}
