package sqlite

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
)

// TestContractOfAPriorityThatIsAFIFOQueue: the queue of a priority keeps the same promises as
// the ordered queue if its type is FIFO, dead letters included.
func TestContractOfAPriorityThatIsAFIFOQueue(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		var fifo *Engine
		h := queuetest.Kept(func(now func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
			fifo = openAt(t, Memory, Options{Now: now, Type: queue.FIFO, Queues: configs})
			return openAt(t, Memory, Options{Now: now, Queues: configs})
		}, false)
		h.FIFO, h.DeadOrdered = fifo.Queue(queue.Normal), fifo.Queue(queue.Dead)
		return h
	})
}

// TestNothingIsLostWhenQueuesChangeTheirType: visible, delayed, in flight and dead messages are
// received after the file was opened with queues of the other type, there and back.
func TestNothingIsLostWhenQueuesChangeTheirType(t *testing.T) {
	path, c := file(t), queuetest.NewClock()
	open := func(typ queue.Type) *Engine { return openAt(t, path, Options{Now: c.Now, Type: typ}) }
	shut := func(e *Engine) {
		t.Helper()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	e := open(queue.Standard)
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "in flight"})
	receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{Visibility: time.Minute})
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "visible"}, queue.Message{Body: "fair", OrderingKey: "tenant"},
		queue.Message{Body: "fair too", OrderingKey: "tenant"}, queue.Message{Body: "delayed", Delay: 2 * time.Minute})
	mustSend(t, e.Queue(queue.Dead), queue.Message{Body: "dead"})
	mustSend(t, e.Queue(queue.Ordered), ordered("g", "1", "g1"), ordered("g", "2", "g2"))
	shut(e)

	e = open(queue.FIFO)
	if c := e.Queue(queue.Normal).Capabilities(); !c.NativeDeduplication || c.MaxDelay != 0 {
		t.Errorf("the queue can %+v", c)
	}
	if got := receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{Visibility: time.Second}); bodies(got) != "visible fair fair too" {
		t.Errorf("at once it received %q", bodies(got))
	}
	c.Advance(time.Minute)
	if got := receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{Visibility: time.Second}); len(got) != 4 {
		t.Errorf("a minute later it received %q", bodies(got))
	}
	c.Advance(time.Minute)
	mustSend(t, e.Queue(queue.Normal), ordered("h", "1", "h1"), ordered("h", "1", "dropped"), ordered("h", "2", "h2"))
	if got := receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{Visibility: time.Minute}); len(got) != 7 {
		t.Errorf("after the delay it received %q", bodies(got))
	}
	mustSend(t, e.Queue(queue.Normal), ordered("h", "3", "h3"))
	if got := receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{}); len(got) != 0 {
		t.Errorf("received %q of a group in flight", bodies(got))
	}
	shut(e)

	e = open(queue.Standard)
	if got := receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{}); bodies(got) != "h3" {
		t.Errorf("without groups it received %q", bodies(got))
	}
	c.Advance(time.Minute)
	if got := receive(t, e.Queue(queue.Normal), queue.ReceiveOptions{}); len(got) != 8 {
		t.Errorf("at last it received %q", bodies(got))
	}
	if got := receive(t, e.Queue(queue.Dead), queue.ReceiveOptions{}); bodies(got) != "dead" {
		t.Errorf("of the dead letters it received %q", bodies(got))
	}
	// The ordered queue has kept its groups all the while.
	first := receive(t, e.Queue(queue.Ordered), queue.ReceiveOptions{Max: 1})
	if rest := receive(t, e.Queue(queue.Ordered), queue.ReceiveOptions{}); bodies(first) != "g1" || len(rest) != 0 {
		t.Errorf("of the group %q, then %q", bodies(first), bodies(rest))
	}
	shut(e)
}
