package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
)

// TestNobodySleepsWhileAMessageCanBeReceived does random sends, receives, deletes, writes that fail,
// calls that are given up, and restarts. Whenever nothing moves any more, no receiver may wait for
// what is there. Each receipt comes once, and no message is lost.
func TestNobodySleepsWhileAMessageCanBeReceived(t *testing.T) {
	steps, random := long.Pick(150, 600), property.Rand(t)
	for range long.Pick(2, 100) {
		for _, typ := range []queue.Type{queue.Standard, queue.Fair, queue.FIFO} {
			for about, path := range engines {
				seed := random.Uint64()
				t.Run(fmt.Sprint(typ, " ", about, " ", seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := &crowd{
							T: t, path: path(t), typ: typ, random: rand.New(rand.NewPCG(seed, 0)),
							sent: map[string]bool{}, handles: map[string]bool{}, gone: map[string]time.Time{},
						}
						c.open()
						for range steps {
							c.step()
						}
						c.finish()
					})
				})
			}
		}
	}
}

// crowd is callers of one queue.
type crowd struct {
	*testing.T
	path  string
	typ   queue.Type
	e     *Engine
	q     queue.Queue
	calls sync.WaitGroup
	slow  atomic.Bool // a write takes time

	mu       sync.Mutex
	random   *rand.Rand
	sends    int
	sleepers int
	sent     map[string]bool      // what is on the queue for sure
	handles  map[string]bool      // of what was received
	gone     map[string]time.Time // when it was deleted
	story    []string
}

func (c *crowd) open() {
	c.e = openAt(c, c.path, Options{Type: c.typ})
	c.q = c.e.Queue(queue.Normal)
}

func (c *crowd) tell(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf(format, args...))
}

// below is a random number; millis is such a time.
func (c *crowd) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *crowd) millis(n int) time.Duration { return time.Duration(c.below(n)) * time.Millisecond }

func (c *crowd) step() {
	ctx, cancel := context.WithCancel(c.Context())
	defer c.calls.Go(func() {
		if c.below(3) == 0 {
			time.Sleep(c.millis(100))
			cancel()
		}
		<-time.After(queue.MaxWait)
		cancel()
	})
	switch what := c.below(100); {
	case what < 30:
		c.calls.Go(func() { c.receive(ctx) })
	case what < 50:
		c.calls.Go(func() { c.send(ctx, 1) })
	case what < 56:
		c.calls.Go(func() { c.send(ctx, 1+c.below(4)*c.below(8)) })
	case what < 60:
		c.calls.Go(func() {
			if err := c.e.write(ctx, func(s *session) error {
				return errors.Join(put(s, table.Item{Key: table.Key{PK: "p", SK: "undone"}}), errors.New("boom"))
			}); err == nil {
				c.Error("a write that fails succeeded")
			}
		})
	case what < 61 && c.path != Memory:
		c.restart()
	case what < 65:
		took := c.millis(4)
		c.calls.Go(func() {
			_ = c.e.write(ctx, func(*session) error {
				c.slow.Store(true)
				defer c.slow.Store(false)
				time.Sleep(took)
				return nil
			})
		})
	case what < 70:
		c.calls.Go(func() { _, _ = c.e.Table().Get(ctx, table.Key{PK: "p", SK: "none"}) })
	case what < 85:
		c.look()
	default:
		time.Sleep(c.millis(100))
		c.look()
	}
}

func (c *crowd) send(ctx context.Context, n int) {
	var ms []queue.Message
	delay := c.millis(2) * c.millis(300) / time.Millisecond
	for range n {
		c.mu.Lock()
		c.sends++
		m := queue.Message{Body: fmt.Sprint(c.sends), OrderingKey: fmt.Sprint(c.random.IntN(4))}
		c.mu.Unlock()
		switch {
		case c.typ == queue.FIFO && c.below(10) == 0:
			m.OrderingKey, m.DeduplicationKey = "again", "again"
		case c.typ == queue.FIFO:
			m.DeduplicationKey = m.Body
		case c.below(2) == 0:
			m.Delay = delay
		}
		ms = append(ms, m)
	}
	errs := c.q.SendBatch(ctx, ms)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range ms {
		c.tell("sent %s of group %s with delay %s: %v", m.Body, m.OrderingKey, m.Delay, errs[i])
		if errs[i] == nil && m.OrderingKey != "again" {
			c.sent[m.Body] = true
		}
	}
}

func (c *crowd) receive(ctx context.Context) {
	begun := time.Now()
	o := queue.ReceiveOptions{Max: 1 + c.below(2)*c.below(4), Wait: c.millis(30) * c.millis(100) / time.Millisecond, Visibility: time.Millisecond + c.millis(400)}
	c.sleep(o, 1)
	got, err := c.q.Receive(ctx, o)
	c.sleep(o, -1)
	c.mu.Lock()
	c.tell("received %q with %+v, %v", bodies(got), o, err)
	if len(got) > o.Max {
		c.Errorf("%d messages came, %d were asked for", len(got), o.Max)
	}
	for _, r := range got {
		if at, gone := c.gone[r.Body]; gone && begun.After(at) {
			c.Errorf("message %s came after it was deleted", r.Body)
		}
		if c.handles[r.Handle] {
			c.Errorf("receipt %d of message %s came twice", r.ReceiveCount, r.Body)
		}
		c.handles[r.Handle] = true
	}
	c.mu.Unlock()
	for _, r := range got {
		time.Sleep(c.millis(20))
		switch c.below(5) {
		case 0, 1:
			if c.q.Delete(c.Context(), r.Handle) == nil {
				c.mu.Lock()
				c.gone[r.Body] = time.Now()
				c.mu.Unlock()
			}
		case 2:
			_ = c.q.ChangeVisibility(c.Context(), r.Handle, c.millis(2)*c.millis(40)/time.Millisecond)
		}
	}
}

func (c *crowd) sleep(o queue.ReceiveOptions, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Wait > 0 {
		c.sleepers += n
	}
}

// restart closes the engine during the calls, and opens it again.
func (c *crowd) restart() {
	if err := c.e.Close(); err != nil {
		c.Error(err)
	}
	c.calls.Wait()
	c.open()
	if err := c.e.Recall(c.Context()); err != nil {
		c.Error(err)
	}
}

// look checks, once nothing moves, that nobody waits for what is there.
func (c *crowd) look() {
	for synctest.Wait(); c.slow.Load(); synctest.Wait() {
		time.Sleep(time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	query := `SELECT count(*) FROM message WHERE queue = ? AND visible <= ?`
	if c.typ == queue.FIFO {
		query = `SELECT count(*) FROM fifo_group WHERE queue = ? AND free <= ?`
	}
	var n int
	err := c.e.read(c.Context(), func(s *session) error {
		_, err := s.one(query, []any{string(queue.Normal), time.Now().UnixMilli()}, &n)
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	c.tell("%d can be received, %d wait", n, c.sleepers)
	if n > 0 && c.sleepers > 0 {
		for _, line := range c.story[max(0, len(c.story)-40):] {
			c.Log(line)
		}
		c.Errorf("%d messages or groups can be received, and %d receivers sleep", n, c.sleepers)
	}
}

// finish takes what is left.
func (c *crowd) finish() {
	c.calls.Wait()
	for idle := 0; idle < 5; idle++ {
		time.Sleep(500 * time.Millisecond)
		for _, name := range []queue.Name{queue.Normal, queue.Dead} {
			for got := receive(c, c.e.Queue(name), queue.ReceiveOptions{}); len(got) > 0; got = receive(c, c.e.Queue(name), queue.ReceiveOptions{}) {
				idle = 0
				for _, r := range got {
					c.gone[r.Body] = time.Now()
					if err := c.e.Queue(name).Delete(c.Context(), r.Handle); err != nil {
						c.Fatal(err)
					}
				}
			}
		}
	}
	for body := range c.sent {
		if _, gone := c.gone[body]; !gone {
			c.Errorf("message %s is lost", body)
		}
	}
}
