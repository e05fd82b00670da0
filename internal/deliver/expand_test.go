package deliver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// slow is a table whose batches of writes take their time.
type slow struct {
	table.Table
	takes func()
}

func (s slow) PutAll(ctx context.Context, items []table.Item) error {
	s.takes()
	return s.Table.PutAll(ctx, items)
}

// slowWorld makes a world in which an invocation has time for two steps of an
// expansion.
func slowWorld(t *testing.T, typ queue.Type) *world.World {
	t.Helper()
	var w *world.World
	w = world.New(t, world.Options{QueueType: typ, Table: func(tbl table.Table) table.Table {
		return slow{tbl, func() { w.Clock.Advance(25 * time.Second) }}
	}})
	return w
}

func targets(to []string) []activity.Target {
	ts := make([]activity.Target, len(to))
	for i, in := range to {
		ts[i] = activity.Target{Inbox: in, Stands: 1}
	}
	return ts
}

// onBothTypes runs a test with queues of each type.
func onBothTypes(t *testing.T, run func(t *testing.T, typ queue.Type)) {
	for _, typ := range []queue.Type{queue.Standard, queue.FIFO} {
		t.Run(string(typ), func(t *testing.T) { run(t, typ) })
	}
}

// puts counts messages, as two with one deduplication key are one.
var puts atomic.Int64

func put(t *testing.T, w *world.World, name queue.Name, m message.Message) {
	t.Helper()
	out := queue.Message{Body: world.Encode(t, m)}
	if w.Engine.Queue(name).Capabilities().NativeDeduplication {
		out.OrderingKey, out.DeduplicationKey = "k", fmt.Sprint(puts.Add(1))
	}
	if err := w.Engine.Queue(name).Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
}

// refer stores a message and returns a claim check for it.
func refer(t *testing.T, w *world.World, ref string, m message.Message) message.Message {
	t.Helper()
	n, err := claimcheck.Put(t.Context(), w.Store, ref, world.Encode(t, m), w.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return message.Message{Ref: &message.Ref{ID: ref, Parts: n}}
}

func expectOnce(t *testing.T, w *world.World, id activity.ID, to []string) {
	t.Helper()
	accepted := w.Servers.Accepted()[id]
	for _, in := range to {
		if accepted[in] != 1 {
			t.Fatalf("%s got it %d times", in, accepted[in])
		}
	}
}

func TestALargeFanOutGoesOnInLaterInvocations(t *testing.T) {
	t.Parallel()
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		to := inboxes(long.Pick(5_345, 12_345))
		for name, send := range map[string]func(*testing.T, *world.World, activity.Activity) message.Message{
			"fan-out": func(_ *testing.T, _ *world.World, a activity.Activity) message.Message {
				return message.Message{Activity: &a, FanOut: &message.FanOut{Targets: targets(to)}}
			},
			"claim check": func(t *testing.T, w *world.World, a activity.Activity) message.Message {
				return refer(t, w, "ref", message.Message{Activity: &a, FanOut: &message.FanOut{Targets: targets(to)}})
			},
			"claim check in a batch": func(t *testing.T, w *world.World, a activity.Activity) message.Message {
				other := w.Activity("Create")
				return message.Message{Batch: []message.Message{
					{Version: message.Version, Activity: &other, Deliver: &message.Delivery{Position: message.Whole, Targets: targets(to[:3])}},
					versioned(refer(t, w, "ref", message.Message{Activity: &a, FanOut: &message.FanOut{Targets: targets(to)}})),
				}}
			},
		} {
			t.Run(name, func(t *testing.T) {
				if !long.On() && name == "claim check" {
					t.Skip("takes a minute under the race detector, and the batch has a claim check, too")
				}
				w := slowWorld(t, typ)
				a := w.Activity("Create")
				put(t, w, queue.Normal, send(t, w, a))
				if w.Poll(queue.Normal) != 1 {
					t.Fatal("nothing received")
				}
				if d, err := w.Engine.Queue(queue.Normal).Depth(t.Context()); err != nil || d.InFlight != 0 || d.Visible < 51 || d.Visible > 55 {
					t.Errorf("after the first invocation: %+v, %v; want two steps and the rest", d, err)
				}
				w.Work()
				expectOnce(t, w, a.ID, to)
				w.Quiet()
			})
		}
	})
}

func versioned(m message.Message) message.Message {
	m.Version = message.Version
	return m
}

func TestALargeOrderedFanOutGoesOnInItsPlace(t *testing.T) {
	w := slowWorld(t, queue.Standard)
	to := inboxes(345)
	a := w.Activity("Create")
	a.OrderingKey = "k"
	first := w.Send(a, to...)
	b := w.Activity("Update")
	b.OrderingKey = "k"
	second := w.Send(b, to...)
	w.Run(2*time.Hour, time.Minute)
	expectOnce(t, w, first, to)
	expectOnce(t, w, second, to)
	checkOrder(t, w, []line{{"k", []activity.ID{first, second}}})
	w.Quiet()
}

func TestABatchIsSplitIntoItsActivities(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		for _, stored := range []bool{false, true} {
			w := world.New(t, world.Options{QueueType: typ})
			small, large := w.Activity("Create"), w.Activity("Create")
			m := message.Message{Batch: []message.Message{
				{Version: message.Version, Activity: &small, Deliver: &message.Delivery{Position: message.Whole, Targets: targets(inboxes(3))}},
				{Version: message.Version, Activity: &large, FanOut: &message.FanOut{Targets: targets(inboxes(120))}},
			}}
			if stored {
				m = refer(t, w, "ref", m)
			}
			put(t, w, queue.Normal, m)
			w.Work()
			expectOnce(t, w, small.ID, inboxes(3))
			expectOnce(t, w, large.ID, inboxes(120))
			w.Quiet()
		}
	})
}

func TestABatchOnTheOrderedQueueKeepsItsOrder(t *testing.T) {
	w := world.New(t, world.Options{})
	var batch []message.Message
	l := line{key: "k"}
	for i := range 12 {
		a := w.Activity(fmt.Sprint("Update ", i))
		a.OrderingKey = "k"
		l.ids = append(l.ids, a.ID)
		batch = append(batch, message.Message{Version: message.Version, Activity: &a, FanOut: &message.FanOut{Targets: targets([]string{sick})}})
	}
	w.Servers.Script("sick.example", world.Then(2, world.Answers(500), nil))
	put(t, w, queue.Ordered, message.Message{Batch: batch})
	w.Run(3*time.Hour, time.Second)
	for _, id := range l.ids {
		expectOnce(t, w, id, []string{sick})
	}
	checkOrder(t, w, []line{l})
}

func TestAStoredPayloadThatIsGoneGoesToTheDeadLetters(t *testing.T) {
	w := world.New(t, world.Options{})
	put(t, w, queue.Normal, message.Message{Ref: &message.Ref{ID: "nothing", Parts: 2}})
	w.Work()
	got, err := w.Engine.Queue(queue.Dead).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 || got[0].Attributes["reason"] != "payload" {
		t.Errorf("dead messages %+v, error %v; want one for its payload", got, err)
	}
}

func TestAnActivityOfAnUnknownProtocolGoesToTheDeadLetters(t *testing.T) {
	w := world.New(t, world.Options{})
	a := w.Activity("Create")
	a.Protocol = "gopher"
	w.Send(a, fine)
	w.Work()
	got, err := w.Engine.Queue(queue.Dead).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 || got[0].Attributes["reason"] != "protocol" {
		t.Errorf("dead messages %+v, error %v; want one for its protocol", got, err)
	}
}
