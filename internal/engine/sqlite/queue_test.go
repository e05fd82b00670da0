package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
)

func ordered(group, key, body string) queue.Message {
	return queue.Message{Body: body, OrderingKey: group, DeduplicationKey: key}
}

func mustSend(t testing.TB, q queue.Queue, ms ...queue.Message) {
	t.Helper()
	for i, err := range q.SendBatch(t.Context(), ms) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func receive(t testing.TB, q queue.Queue, o queue.ReceiveOptions) []queue.Received {
	t.Helper()
	if o.Max == 0 {
		o.Max = queue.MaxBatch
	}
	got, err := q.Receive(t.Context(), o)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return got
}

func bodies(rs []queue.Received) string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Body)
	}
	return strings.Join(all, " ")
}

func TestQueueStateSurvivesARestart(t *testing.T) {
	path, c := file(t), queuetest.NewClock()
	e := openAt(t, path, Options{Now: c.Now})
	normal, fifo := e.Queue(queue.Normal), e.Queue(queue.Ordered)
	mustSend(t, normal, queue.Message{Body: "in flight", Attributes: map[string]string{"a": "b"}})
	held := receive(t, normal, queue.ReceiveOptions{Visibility: time.Minute})
	mustSend(t, normal, queue.Message{Body: "visible"}, queue.Message{Body: "delayed", Delay: 2 * time.Minute})
	mustSend(t, fifo, ordered("g", "1", "g1"), ordered("g", "2", "g2"))
	receive(t, fifo, queue.ReceiveOptions{Max: 1, Visibility: time.Minute})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	e = openAt(t, path, Options{Now: c.Now})
	normal, fifo = e.Queue(queue.Normal), e.Queue(queue.Ordered)
	if d, err := normal.Depth(t.Context()); err != nil || d != (queue.Depth{Visible: 1, InFlight: 1, Delayed: 1}) {
		t.Errorf("depth %+v, error %v", d, err)
	}
	if got := receive(t, fifo, queue.ReceiveOptions{}); len(got) != 0 {
		t.Errorf("received %q of a group in flight", bodies(got))
	}
	mustSend(t, fifo, ordered("g", "1", "a duplicate"))
	c.Advance(time.Minute)
	if got := receive(t, fifo, queue.ReceiveOptions{}); bodies(got) != "g1 g2" || got[0].ReceiveCount != 2 {
		t.Errorf("received %q", bodies(got))
	}
	if err := normal.Delete(t.Context(), held[0].Handle); err != nil {
		t.Errorf("delete by a handle from before: %v", err)
	}
	c.Advance(time.Minute)
	if got := receive(t, normal, queue.ReceiveOptions{}); bodies(got) != "visible delayed" {
		t.Errorf("received %q", bodies(got))
	}
}

// TestWaitingReceiveIsWokenWhenAMessageComesBack, like the one below, runs in
// synthetic time: a receive that is not woken would take until its Wait ends.
func TestWaitingReceiveIsWokenWhenAMessageComesBack(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			q := openAt(t, Memory, Options{}).Queue(name)
			m := queue.Message{Body: "x"}
			if name.Ordered() {
				m = ordered("g", "k", "x")
			}
			mustSend(t, q, m)
			receive(t, q, queue.ReceiveOptions{Visibility: 3 * time.Second})
			begun := time.Now()
			if got := receive(t, q, queue.ReceiveOptions{Wait: 20 * time.Second}); bodies(got) != "x" {
				t.Errorf("%s: received %q", name, bodies(got))
			}
			if d := time.Since(begun); d < 3*time.Second || d > 3*time.Second+time.Millisecond {
				t.Errorf("%s: came back after %s, want 3s", name, d)
			}
			begun = time.Now()
			if got := receive(t, q, queue.ReceiveOptions{Wait: 5 * time.Second}); len(got) > 0 || time.Since(begun) != 5*time.Second {
				t.Errorf("%s: received %q after %s, want nothing after 5s", name, bodies(got), time.Since(begun))
			}
		})
	}
}

func TestWaitingReceiveIsWokenByEveryChange(t *testing.T) {
	show := func(t *testing.T, e *Engine, r queue.Received) {
		if err := e.Queue(queue.Ordered).ChangeVisibility(t.Context(), r.Handle, 0); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		receives int
		waits    queue.Name
		wake     func(*testing.T, *Engine, queue.Received)
		want     string
	}{
		"delete frees a group": {2, queue.Ordered, func(t *testing.T, e *Engine, r queue.Received) {
			if err := e.Queue(queue.Ordered).Delete(t.Context(), r.Handle); err != nil {
				t.Error(err)
			}
		}, "g2"},
		"send": {2, queue.Normal, func(t *testing.T, e *Engine, _ queue.Received) {
			mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "new"})
		}, "new"},
		"visibility cut short": {2, queue.Ordered, show, "g1"},
		"dead letter": {1, queue.DeadOrdered, func(t *testing.T, e *Engine, r queue.Received) {
			show(t, e, r)
			receive(t, e.Queue(queue.Ordered), queue.ReceiveOptions{})
		}, "g1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := openAt(t, Memory, Options{Queues: map[queue.Name]queue.Config{queue.Ordered: {MaxReceives: c.receives}}})
				mustSend(t, e.Queue(queue.Ordered), ordered("g", "1", "g1"), ordered("g", "2", "g2"))
				held := receive(t, e.Queue(queue.Ordered), queue.ReceiveOptions{Max: 1, Visibility: time.Hour})
				got := make(chan string)
				begun := time.Now()
				go func() {
					rs, err := e.Queue(c.waits).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: 20 * time.Second})
					got <- fmt.Sprint(bodies(rs), " ", err, " ", time.Since(begun))
				}()
				synctest.Wait() // until it waits
				c.wake(t, e, held[0])
				if s := <-got; s != c.want+" <nil> 0s" {
					t.Errorf("received %s, want %s at once", s, c.want)
				}
			})
		})
	}
}

func TestMessagesPastTheirRetentionAreGone(t *testing.T) {
	c := queuetest.NewClock()
	e := openAt(t, Memory, Options{Now: c.Now, Queues: map[queue.Name]queue.Config{queue.Normal: {Retention: time.Hour}}})
	normal, fifo := e.Queue(queue.Normal), e.Queue(queue.Ordered)
	mustSend(t, normal, queue.Message{Body: "old"})
	mustSend(t, fifo, ordered("g", "1", "g1"))
	c.Advance(59 * time.Minute)
	mustSend(t, normal, queue.Message{Body: "new"})
	c.Advance(time.Minute)
	if got := bodies(receive(t, normal, queue.ReceiveOptions{})); got != "new" {
		t.Errorf("received %q", got)
	}
	c.Advance(13 * 24 * time.Hour)
	mustSend(t, fifo, ordered("g", "2", "g2"))
	c.Advance(23 * time.Hour)
	if got := bodies(receive(t, fifo, queue.ReceiveOptions{})); got != "g2" {
		t.Errorf("received %q", got)
	}
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, e, "message"); n != 1 {
		t.Errorf("%d messages after a sweep, want g2 alone", n)
	}
	if n := rows(t, e, "body"); n != 1 {
		t.Errorf("%d bodies after a sweep", n)
	}
}

func TestDeadLettersKeepTheRestOfTheirRetention(t *testing.T) {
	c := queuetest.NewClock()
	e := openAt(t, Memory, Options{Now: c.Now, Queues: map[queue.Name]queue.Config{
		queue.Normal:  {MaxReceives: 1, Visibility: time.Second},
		queue.Ordered: {MaxReceives: 1, Visibility: time.Second},
	}})
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "standard"})
	mustSend(t, e.Queue(queue.Ordered), ordered("g", "1", "fifo"))
	sent := c.Now()
	for _, n := range []queue.Name{queue.Normal, queue.Ordered} {
		receive(t, e.Queue(n), queue.ReceiveOptions{})
		c.Advance(time.Minute)
		if got := receive(t, e.Queue(n), queue.ReceiveOptions{}); len(got) != 0 {
			t.Errorf("%s: received %q once too often", n, bodies(got))
		}
	}
	if got := receive(t, e.Queue(queue.Dead), queue.ReceiveOptions{}); bodies(got) != "standard" || !got[0].SentAt.Equal(sent) {
		t.Errorf("dead letter %+v, want it sent at %s", got, sent)
	}
	if got := receive(t, e.Queue(queue.DeadOrdered), queue.ReceiveOptions{}); bodies(got) != "fifo" || !got[0].SentAt.Equal(c.Now()) {
		t.Errorf("dead letter %+v, want it sent at %s", got, c.Now())
	}
}

func TestADeadLetterMakesRoomInTheSameReceive(t *testing.T) {
	c := queuetest.NewClock()
	config := queue.Config{MaxReceives: 1, Visibility: time.Second}
	e := openAt(t, Memory, Options{Now: c.Now, Queues: map[queue.Name]queue.Config{queue.Normal: config, queue.Ordered: config}})
	normal, fifo := e.Queue(queue.Normal), e.Queue(queue.Ordered)
	for i := range 25 {
		mustSend(t, normal, queue.Message{Body: "poison"})
		mustSend(t, fifo, ordered(fmt.Sprint(i), "k", "poison"))
	}
	for range 3 {
		receive(t, normal, queue.ReceiveOptions{})
		receive(t, fifo, queue.ReceiveOptions{})
	}
	c.Advance(time.Minute)
	mustSend(t, normal, queue.Message{Body: "good"})
	mustSend(t, fifo, ordered("good", "k", "good"))
	for _, q := range []queue.Queue{normal, fifo} {
		if got := bodies(receive(t, q, queue.ReceiveOptions{Max: 1})); got != "good" {
			t.Errorf("received %q", got)
		}
	}
}

func TestAGroupThatIsBusyStarvesNoOther(t *testing.T) {
	c := queuetest.NewClock()
	q := openAt(t, Memory, Options{Now: c.Now}).Queue(queue.Ordered)
	for i := range 20 {
		mustSend(t, q, ordered("busy", fmt.Sprint(i), "busy"))
	}
	c.Advance(time.Millisecond)
	mustSend(t, q, ordered("quiet", "1", "quiet"))
	var order []string
	for range 3 {
		c.Advance(time.Millisecond)
		got := receive(t, q, queue.ReceiveOptions{Max: 1})
		order = append(order, got[0].Body)
		if err := q.Delete(t.Context(), got[0].Handle); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Contains(order, "quiet") {
		t.Errorf("received %q", order)
	}
}

func TestClosedEngineRefusesEverything(t *testing.T) {
	e := openAt(t, file(t), Options{})
	q := e.Queue(queue.Normal)
	waiting := make(chan error)
	go func() {
		_, err := q.Receive(context.Background(), queue.ReceiveOptions{Max: 1, Wait: 20 * time.Second})
		waiting <- err
	}()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting receive: %v", err)
	}
	if err := q.Send(t.Context(), queue.Message{Body: "x"}); !errors.Is(err, ErrClosed) || !queue.NotSent(err) {
		t.Errorf("send: %v", err)
	}
	if _, err := q.Depth(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("depth: %v", err)
	}
	if _, err := e.Table().Get(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// rows counts what a table of the file holds.
func rows(t fataler, e *Engine, name string) int {
	t.Helper()
	var n int
	if err := e.read(t.Context(), func(s *session) error {
		_, err := s.one("SELECT count(*) FROM "+name, nil, &n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// fataler is the part of *testing.T and *rapid.T that the helpers use.
type fataler interface {
	Helper()
	Context() context.Context
	Fatal(...any)
}
