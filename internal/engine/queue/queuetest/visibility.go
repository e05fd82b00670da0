package queuetest

import (
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

var visibilityCases = []testCase{
	{"MessageComesBackWhenItsVisibilityEnds", func(c *check) {
		c.send(c.Standard, text("x"))
		c.receiveFor(c.Standard, 1, 0)
		c.none(c.Standard, "the message is in flight")
		c.wait(c.Visibility + time.Second)
		if got := c.receive(c.Standard, 1)[0]; got.ReceiveCount != 2 {
			c.Errorf("receive count %d, want 2", got.ReceiveCount)
		}
	}},
	{"VisibilityOfOneReceive", func(c *check) {
		c.send(c.Standard, text("x"))
		c.receiveFor(c.Standard, 1, c.Visibility+3*time.Second)
		c.wait(c.Visibility + time.Second)
		c.none(c.Standard, "the receive hid it for longer than the queue does")
		c.wait(3 * time.Second)
		c.receive(c.Standard, 1)
	}},
	{"VisibilityExtended", func(c *check) {
		c.send(c.Standard, text("x"))
		got := c.receiveFor(c.Standard, 1, 0)
		c.hide(c.Standard, c.Visibility+3*time.Second, got...)
		c.wait(c.Visibility + time.Second)
		c.none(c.Standard, "its visibility timeout was extended")
		c.wait(3 * time.Second)
		c.receive(c.Standard, 1)
	}},
	{"VisibilityCutShort", func(c *check) {
		c.send(c.Standard, text("x"))
		got := c.receive(c.Standard, 1)
		c.hide(c.Standard, time.Second, got...)
		c.none(c.Standard, "it is hidden for another second")
		c.wait(2 * time.Second)
		got = c.receive(c.Standard, 1)
		c.show(c.Standard, got...)
		c.receive(c.Standard, 1)
	}},
	{"VisibilityOfOneMessageOnly", func(c *check) {
		c.send(c.Standard, text("a"), text("b"))
		got := c.receive(c.Standard, 2)
		c.show(c.Standard, got[0])
		c.bodies(c.receive(c.Standard, 1), got[0].Body)
	}},
	{"VisibilityOfAMessageThatIsNotInFlightIsRefused", func(c *check) {
		c.send(c.Standard, text("x"))
		got := c.receive(c.Standard, 1)[0]
		c.show(c.Standard, got)
		if err := c.Standard.ChangeVisibility(c.ctx, got.Handle, time.Minute); !queue.Refused(err) {
			c.Errorf("hid a message that is not in flight: error %v, want queue.ErrInvalid", err)
		}
		c.receive(c.Standard, 1)
	}},
	{"VisibilityOfADeletedMessageIsRefused", func(c *check) {
		c.send(c.Standard, text("x"))
		got := c.receive(c.Standard, 1)[0]
		c.delete(c.Standard, got)
		if err := c.Standard.ChangeVisibility(c.ctx, got.Handle, time.Minute); !queue.Refused(err) {
			c.Errorf("hid a message that was deleted: error %v, want queue.ErrInvalid", err)
		}
	}},
	{"VisibilityOver12HoursIsRefused", func(c *check) {
		c.send(c.Standard, text("x"))
		if _, err := c.Standard.Receive(c.ctx, queue.ReceiveOptions{Max: 1, Visibility: queue.MaxVisibility + time.Second}); err == nil {
			c.Error("received for more than 12 h")
		}
		got := c.receive(c.Standard, 1)[0]
		for _, d := range []time.Duration{queue.MaxVisibility + time.Second, -time.Second} {
			if err := c.Standard.ChangeVisibility(c.ctx, got.Handle, d); !queue.Refused(err) {
				c.Errorf("changed visibility to %s: error %v, want queue.ErrInvalid", d, err)
			}
		}
	}},
	{"VisibilityIs12HoursInAllFromTheReceive", func(c *check) {
		c.send(c.Standard, text("x"))
		got := c.receive(c.Standard, 1)[0]
		c.wait(3 * time.Second)
		if err := c.Standard.ChangeVisibility(c.ctx, got.Handle, queue.MaxVisibility); !queue.Refused(err) {
			c.Errorf("extended beyond 12 h from the receive: error %v, want queue.ErrInvalid", err)
		}
		c.hide(c.Standard, queue.MaxVisibility-time.Minute, got)
	}},
	{"WaitingReceiveGetsWhatAnotherProcessDelays", func(c *check) {
		other, _ := c.other()
		c.comes(c.Standard, func() { c.send(other, queue.Message{Body: "x", Delay: time.Second}) })
	}},
	{"WaitingReceiveGetsWhatAnotherProcessShowsSooner", func(c *check) {
		standard, fifo := c.other()
		for q, other := range map[queue.Queue]queue.Queue{c.Standard: standard, c.FIFO: fifo} {
			m := ordered("g", "k", "x")
			if q == c.Standard {
				m = text("x")
			}
			c.send(other, m)
			held := c.receive(other, 1)
			c.comes(q, func() { c.hide(other, time.Second, held...) })
		}
	}},
	{"WaitingReceiveIsLikeAnyOther", func(c *check) {
		for _, q := range []queue.Queue{c.Standard, c.FIFO} {
			m := ordered("g", "k", "x")
			if q == c.Standard {
				m = text("x")
			}
			got := c.waiting(q, 1)
			c.send(q, m)
			for n := 1; n <= c.MaxReceives; n++ {
				r := <-got
				c.bodies(r, "x")
				if r[0].ReceiveCount != n {
					c.Errorf("receive count %d, want %d", r[0].ReceiveCount, n)
				}
				c.depth(q, queue.Depth{InFlight: 1})
				if n == c.MaxReceives {
					c.delete(q, r...)
					break
				}
				got = c.waiting(q, 1)
				c.show(q, r...)
			}
			c.depth(q, queue.Depth{})
		}
	}},
	{"WaitingReceiveOfAMessageThatWasReceivedTooOften", func(c *check) {
		got := c.waiting(c.Standard, 1)
		c.send(c.Standard, text("x"))
		for r := <-got; ; r = c.receive(c.Standard, 1) {
			c.show(c.Standard, r...)
			if r[0].ReceiveCount == c.MaxReceives {
				break
			}
		}
		got = c.waiting(c.Standard, 1)
		c.send(c.Standard, text("y"))
		c.bodies(<-got, "y")
		c.bodies(c.receive(c.Dead, 1), "x")
	}},
	{"WaitingReceiveGetsWhatIsNotDelayed", func(c *check) {
		got := c.waiting(c.Standard, 10)
		c.batch(c.Standard, []queue.Message{{Body: "later", Delay: time.Minute}, text("now")})
		c.bodies(<-got, "now")
		c.depth(c.Standard, queue.Depth{InFlight: 1, Delayed: 1})
	}},
	{"WaitingReceivesShareABatch", func(c *check) {
		var all []<-chan []queue.Received
		for range 3 {
			all = append(all, c.waiting(c.Standard, 1))
		}
		c.batch(c.Standard, []queue.Message{text("a"), text("b"), text("c"), text("d"), text("e")})
		var got []queue.Received
		for _, one := range all {
			got = append(got, <-one...)
		}
		c.depth(c.Standard, queue.Depth{Visible: 2, InFlight: 3})
		c.sameBodies(append(got, c.receive(c.Standard, 2)...), "a", "b", "c", "d", "e")
	}},
	{"WaitingReceiveGetsNothingOfAGroupInFlight", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "first"))
		first := c.receive(c.FIFO, 1)
		got := c.waiting(c.FIFO, 1)
		c.send(c.FIFO, ordered("g", "2", "second"))
		c.send(c.FIFO, ordered("h", "1", "other"))
		c.bodies(<-got, "other")
		c.delete(c.FIFO, first...)
		c.bodies(c.receive(c.FIFO, 1), "second")
	}},
	{"Delay", func(c *check) {
		c.send(c.Standard, queue.Message{Body: "later", Delay: 3 * time.Second}, text("now"))
		c.bodies(c.receive(c.Standard, 1), "now")
		c.none(c.Standard, "the other one is delayed")
		c.wait(4 * time.Second)
		got := c.receive(c.Standard, 1)
		c.bodies(got, "later")
		if got[0].ReceiveCount != 1 {
			c.Errorf("receive count %d, want 1", got[0].ReceiveCount)
		}
	}},
}

// other returns the queues in another process.
func (c *check) other() (standard, fifo queue.Queue) {
	if c.Other == nil {
		return c.Standard, c.FIFO
	}
	return c.Other()
}

// waiting has a receive wait for messages.
func (c *check) waiting(q queue.Queue, limit int) <-chan []queue.Received {
	done := make(chan []queue.Received, 1)
	go func() {
		got, err := q.Receive(c.ctx, queue.ReceiveOptions{Max: limit, Wait: queue.MaxWait, Visibility: 10 * time.Minute})
		if err != nil {
			c.Errorf("receive: %v", err)
		}
		done <- got
	}()
	time.Sleep(200 * time.Millisecond) // until the receive has read the queue
	return done
}

// comes shows that a receive which waits gets the message that delay makes visible after a
// second, 3 s later at most.
func (c *check) comes(q queue.Queue, delay func()) {
	c.Helper()
	done := make(chan error, 1)
	go func() {
		got, err := q.Receive(c.ctx, queue.ReceiveOptions{Max: 1, Wait: queue.MaxWait})
		if err == nil && len(got) != 1 {
			err = fmt.Errorf("received %d messages, want 1", len(got))
		}
		done <- err
	}()
	time.Sleep(200 * time.Millisecond) // until the receive has read the queue
	begun := time.Now()
	delay()
	c.Advance(time.Second)
	if err := <-done; err != nil {
		c.Fatal(err)
	}
	if late := time.Since(begun) - time.Second; late > 3*time.Second {
		c.Errorf("the message came %s late", late)
	}
}
