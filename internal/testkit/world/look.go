package world

import (
	"context"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// States returns what the ledger knows of an activity's recipients, with those
// that are parked without a record.
func (w *World) States(id activity.ID) map[string]ledger.Recipient {
	w.T.Helper()
	ctx := context.Background()
	r, err := w.raw.Activity(ctx, id)
	if err != nil {
		w.T.Fatal(err)
	}
	chunks, err := w.raw.Chunks(ctx, r, 0, r.Chunks()-1)
	if err != nil {
		w.T.Fatal(err)
	}
	states := map[string]ledger.Recipient{}
	for _, c := range chunks {
		for p, t := range c.Targets {
			rec, ok := c.Recipients[p]
			if !ok {
				rec = ledger.Recipient{Target: t, State: activity.Queued}
				// A recipient that was parked before any attempt has no record, only
				// its place in the parking lot.
				ofHost := parking.ID{Key: circuit.HostKey(t.Host()), Unit: message.Unit{Activity: id, Chunk: c.Number, Position: p, Generation: 1}}
				ofInbox := ofHost
				ofInbox.Key = circuit.InboxKey(t.Inbox)
				taken, err := w.raw.IsParked(ctx, []parking.ID{ofHost, ofInbox})
				if err != nil {
					w.T.Fatal(err)
				}
				if len(taken) > 0 {
					rec.State = activity.Parked
				}
			}
			states[t.Inbox] = rec
		}
	}
	return states
}

// Quiet checks that nothing is left on any queue.
func (w *World) Quiet() {
	w.T.Helper()
	for _, name := range queue.Names {
		if d, err := w.Engine.Queue(name).Depth(context.Background()); err != nil || d != (queue.Depth{}) {
			w.T.Errorf("queue %s has %+v, %v", name, d, err)
		}
	}
}

// Parked counts the deliveries that are parked under key.
func (w *World) Parked(key string) int {
	w.T.Helper()
	n := 0
	for shard := range parking.Shards {
		ps, next, err := w.raw.ParkedUnder(context.Background(), key, shard, "", 1000)
		if err != nil || next != "" {
			w.T.Fatalf("read what is parked under %s: more than 1000: %t, %v", key, next != "", err)
		}
		n += len(ps)
	}
	return n
}

// Expect checks the state of each recipient.
func (w *World) Expect(id activity.ID, want map[string]activity.State) {
	w.T.Helper()
	states := w.States(id)
	for inbox, state := range want {
		if got := states[inbox]; got.State != state {
			w.T.Errorf("%s to %s is %q after %d attempts (%d %s), want %q", id, inbox, got.State, got.Attempts, got.LastStatus, got.LastError, state)
		}
	}
}
