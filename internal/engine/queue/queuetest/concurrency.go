package queuetest

import (
	"fmt"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
)

// callers is how many goroutines a concurrent case runs.
const callers = 64

// together runs f in callers goroutines.
func together(f func(i int)) {
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

var concurrencyCases = []testCase{
	{"ManyReceiversGetEachMessageOnce", func(c *check) {
		const n = 200
		var ms []queue.Message
		for _, b := range numbered("m%03d", n) {
			ms = append(ms, text(b))
		}
		c.batch(c.Standard, ms)
		var mu sync.Mutex
		seen := make(map[string]int)
		together(func(int) {
			for empty := 0; empty < 2; {
				got, err := c.Standard.Receive(c.ctx, queue.ReceiveOptions{Max: 3, Wait: c.Wait, Visibility: 5 * time.Minute})
				if err != nil {
					c.Errorf("receive: %v", err)
					return
				}
				if len(got) == 0 {
					empty++
				}
				mu.Lock()
				for _, r := range got {
					seen[r.Body]++
				}
				mu.Unlock()
			}
		})
		if len(seen) != n {
			c.Errorf("%d of %d messages were received", len(seen), n)
		}
		for b, times := range seen {
			if times != 1 {
				c.Errorf("%s was received %d times within its visibility timeout", b, times)
			}
		}
	}},
	{"ManySendersLoseNothing", func(c *check) {
		want := numbered("s%02d", callers)
		together(func(i int) {
			if err := c.Standard.Send(c.ctx, text(want[i])); err != nil {
				c.Errorf("send: %v", err)
			}
		})
		c.sameBodies(c.receiveFor(c.Standard, callers, 5*time.Minute), want...)
	}},
	{"ManySendersOfOneKeySendOne", func(c *check) {
		together(func(int) {
			if err := c.FIFO.Send(c.ctx, ordered("g", "k", "x")); err != nil {
				c.Errorf("send: %v", err)
			}
		})
		got := c.receive(c.FIFO, 1)
		c.delete(c.FIFO, got...)
		c.none(c.FIFO, "the others were duplicates")
	}},
	{"ManyReceiversNeverShareAGroup", func(c *check) {
		const groups, each = 8, 5
		for i := range each {
			for g := range groups {
				body := fmt.Sprintf("%d/%d", g, i)
				c.send(c.FIFO, ordered(fmt.Sprint(g), body, body))
			}
		}
		var mu sync.Mutex
		held := make(map[string]bool)
		order := make(map[string][]string)
		left := groups * each
		together(func(int) {
			for c.ctx.Err() == nil {
				mu.Lock()
				done := left == 0
				mu.Unlock()
				if done {
					return
				}
				got, err := c.FIFO.Receive(c.ctx, queue.ReceiveOptions{Max: 1, Wait: c.Wait, Visibility: 5 * time.Minute})
				if err != nil {
					c.Errorf("receive: %v", err)
					return
				}
				for _, r := range got {
					mu.Lock()
					if held[r.OrderingKey] {
						c.Errorf("%s was received while its group was in flight", r.Body)
					}
					held[r.OrderingKey] = true
					mu.Unlock()
					// Between these two lines another receiver of the group would
					// be noticed.
					mu.Lock()
					order[r.OrderingKey] = append(order[r.OrderingKey], r.Sequence)
					held[r.OrderingKey] = false
					left--
					mu.Unlock()
					if err := c.FIFO.Delete(c.ctx, r.Handle); err != nil {
						c.Errorf("delete: %v", err)
					}
				}
			}
		})
		for g, seqs := range order {
			for i := range seqs[1:] {
				if seqs[i] >= seqs[i+1] {
					c.Errorf("group %s was received out of order", g)
				}
			}
		}
	}},
}
