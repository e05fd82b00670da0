package deliver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// mute is a table whose logs of events cannot be written for a time.
type mute struct {
	table.Table
	is *bool
}

func (m mute) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if *m.is && strings.HasPrefix(it.PK, "E#") {
		return errSevered
	}
	return m.Table.Put(ctx, it, cond)
}

func (m mute) Transact(ctx context.Context, ops []table.Op) error {
	for _, op := range ops {
		if *m.is && strings.HasPrefix(op.Key().PK, "E#") {
			return errSevered
		}
	}
	return m.Table.Transact(ctx, ops)
}

// TestAnEndIsAnEventThoughItsDeliveryIsTriedAnewBeforeThat: the record says then what became of the
// new try, and nothing else says how the first ended.
func TestAnEndIsAnEventThoughItsDeliveryIsTriedAnewBeforeThat(t *testing.T) {
	is := true
	w := world.New(t, world.Options{Table: func(in table.Table) table.Table { return mute{in, &is} }})
	w.Servers.Script("refuses.example", func(_ world.Request, n int) outcome.Outcome {
		if n == 1 {
			return world.Status(403)
		}
		return world.Status(202)
	})
	const inbox = "https://refuses.example/1"
	a := w.Activity("Create")
	id := w.Send(a, inbox)
	w.Work()
	w.Expect(id, map[string]activity.State{inbox: activity.Failed})
	is = false
	m := message.Message{Activity: &a, Deliver: &message.Delivery{Targets: []activity.Target{{Inbox: inbox, Stands: 1}}, Generation: message.NextEpoch(0)}}
	if err := w.Engine.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: world.Encode(t, m)}); err != nil {
		t.Fatal(err)
	}
	w.Work()
	w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
	w.Run(time.Hour, time.Minute)
	if got := eventsOf(t, w, id)[inbox]; !slices.Equal(got, []events.Kind{events.RecipientFailed}) {
		t.Errorf("told %v, want one %s", got, events.RecipientFailed)
	}
}
