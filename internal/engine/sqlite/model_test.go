package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/testkit/property"
)

// model is a plain implementation of what SQS promises.
type model struct {
	fifo     bool
	receives int // the most there are
	messages []*modelled
	window   map[string]time.Time // end of the window per deduplication key
	seen     map[string]*modelled // by handle
}

type modelled struct {
	body, group string
	visible     time.Time
	receives    int
	handles     []string
	deleted     bool
}

func (m *model) inFlight(x *modelled, now time.Time) bool {
	return !x.deleted && x.receives > 0 && x.visible.After(now)
}

// An exhausted message becomes a dead letter when a receive finds it.
func (m *model) exhausted(x *modelled, now time.Time) bool {
	return !x.deleted && x.receives >= m.receives && !x.visible.After(now)
}

// offered lists the messages that may be received now, in the order of sending.
func (m *model) offered(now time.Time) []*modelled {
	held := make(map[string]bool) // by one in flight before
	var all []*modelled
	for _, x := range m.messages {
		if m.fifo && m.inFlight(x, now) {
			held[x.group] = true
		}
		if !x.deleted && !x.visible.After(now) && !m.exhausted(x, now) && !(m.fifo && held[x.group]) {
			all = append(all, x)
		}
	}
	return all
}

// TestQueueBehavesAsItsModel runs random operations on a queue and its model.
func TestQueueBehavesAsItsModel(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			property.Check(t, func(t *rapid.T) { modelRun(t, name) })
		})
	}
}

func modelRun(t *rapid.T, name queue.Name) {
	const receives = 3
	c := queuetest.NewClock()
	e, err := Open(t.Context(), Memory, Options{Now: c.Now, Queues: map[queue.Name]queue.Config{
		name: {Visibility: 10 * time.Second, MaxReceives: receives},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	q := e.Queue(name)
	m := &model{fifo: name.Ordered(), receives: receives, window: make(map[string]time.Time), seen: make(map[string]*modelled)}
	n := 0
	message := func(t *rapid.T) queue.Message {
		n++
		msg := queue.Message{Body: fmt.Sprint(n)}
		if m.fifo {
			msg.OrderingKey = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
			msg.DeduplicationKey = fmt.Sprint(rapid.IntRange(n-3, n).Draw(t, "key"))
		} else {
			msg.Delay = time.Duration(rapid.IntRange(0, 5).Draw(t, "delay")) * time.Second
		}
		return msg
	}
	sent := func(msg queue.Message) {
		if m.fifo {
			id := msg.OrderingKey + "/" + msg.DeduplicationKey
			if m.window[id].After(c.Now()) {
				return
			}
			m.window[id] = c.Now().Add(queue.DedupWindow)
		}
		m.messages = append(m.messages, &modelled{body: msg.Body, group: msg.OrderingKey, visible: c.Now().Add(msg.Delay)})
	}
	take := func(t *rapid.T, limit int, visibility time.Duration) int {
		offered := m.offered(c.Now())
		got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: limit, Visibility: visibility})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != min(limit, len(offered)) {
			t.Fatalf("received %d, want %d of %d offered", len(got), limit, len(offered))
		}
		for _, r := range got {
			// On a FIFO queue the message must be the first of its group.
			i := slices.IndexFunc(offered, func(x *modelled) bool { return x.body == r.Body })
			if i < 0 {
				t.Fatalf("received %s, which is not offered", r.Body)
			}
			x := offered[i]
			if first := slices.IndexFunc(offered, func(y *modelled) bool { return y.group == x.group }); m.fifo && first != i {
				t.Fatalf("received %s before %s of its group", x.body, offered[first].body)
			}
			offered = slices.Delete(offered, i, i+1)
			if x.receives++; r.ReceiveCount != x.receives {
				t.Fatalf("receive count of %s is %d, want %d", x.body, r.ReceiveCount, x.receives)
			}
			x.visible = c.Now().Add(visibility)
			m.seen[r.Handle] = x
			x.handles = append(x.handles, r.Handle)
		}
		return len(got)
	}
	// handle draws a handle of a message that is not exhausted: an engine may
	// move exhausted messages sooner or later.
	handle := func(t *rapid.T) (string, *modelled) {
		var all []string
		for _, x := range m.messages {
			if !m.exhausted(x, c.Now()) {
				all = append(all, x.handles...)
			}
		}
		if len(all) == 0 {
			t.Skip("no handle yet")
		}
		h := rapid.SampledFrom(all).Draw(t, "handle")
		return h, m.seen[h]
	}
	t.Repeat(map[string]func(*rapid.T){
		"send": func(t *rapid.T) {
			msg := message(t)
			if err := q.Send(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
			sent(msg)
		},
		"batch": func(t *rapid.T) {
			var ms []queue.Message
			for range rapid.IntRange(1, 12).Draw(t, "size") {
				ms = append(ms, message(t))
			}
			for _, err := range q.SendBatch(t.Context(), ms) {
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, msg := range ms {
				sent(msg)
			}
		},
		"receive": func(t *rapid.T) {
			take(t, rapid.IntRange(1, 10).Draw(t, "max"), time.Duration(rapid.IntRange(1, 20).Draw(t, "visibility"))*time.Second)
		},
		"delete": func(t *rapid.T) {
			h, x := handle(t)
			if err := q.Delete(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			x.deleted = true
		},
		"change visibility": func(t *rapid.T) {
			h, x := handle(t)
			d := time.Duration(rapid.IntRange(0, 20).Draw(t, "d")) * time.Second
			err := q.ChangeVisibility(t.Context(), h, d)
			if flies := m.inFlight(x, c.Now()); flies != (err == nil) {
				t.Fatalf("in flight: %t, error %v", flies, err)
			}
			if err == nil {
				x.visible = c.Now().Add(d)
			}
		},
		"advance": func(t *rapid.T) {
			c.Advance(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
		},
		"window": func(*rapid.T) { c.Advance(queue.DedupWindow) },
		"sweep": func(t *rapid.T) {
			if err := e.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"": func(t *rapid.T) { m.checkDepth(t, q, c.Now()) },
	})
	// At the end every message that is left is received until it becomes a dead
	// letter.
	left := 0
	for _, x := range m.messages {
		if !x.deleted {
			left++
		}
	}
	for more := true; more; {
		c.Advance(time.Minute)
		more = take(t, queue.MaxBatch, time.Second) > 0
	}
	var dead []queue.Received
	for {
		got, err := e.Queue(name.DeadLetter()).Receive(t.Context(), queue.ReceiveOptions{Max: queue.MaxBatch})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		dead = append(dead, got...)
		for _, r := range got {
			if err := e.Queue(name.DeadLetter()).Delete(t.Context(), r.Handle); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(dead) != left {
		t.Fatalf("%d dead letters at the end, want %d", len(dead), left)
	}
	if groups := rows(t, e, "fifo_group"); groups != 0 {
		t.Fatalf("%d groups are left of empty queues", groups)
	}
}

func (m *model) checkDepth(t *rapid.T, q queue.Queue, now time.Time) {
	var want queue.Depth
	exhausted := 0
	for _, x := range m.messages {
		switch {
		case x.deleted:
		case m.exhausted(x, now):
			exhausted++
		case m.inFlight(x, now):
			want.InFlight++
		case x.visible.After(now):
			want.Delayed++
		default:
			want.Visible++
		}
	}
	got, err := q.Depth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.InFlight != want.InFlight || got.Delayed != want.Delayed || got.Visible < want.Visible || got.Visible > want.Visible+exhausted {
		t.Fatalf("depth %+v, want %+v and up to %d exhausted", got, want, exhausted)
	}
}
