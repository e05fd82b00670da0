package queuetest

import (
	"context"
	"errors"
	"maps"
	"time"

	"fedpost/internal/engine/queue"
)

var standardCases = []testCase{
	{"Capabilities", func(c *check) {
		if got, want := c.Standard.Capabilities(), (queue.Capabilities{NativeRetrial: true, MaxDelay: queue.MaxDelay}); got != want {
			c.Errorf("standard queue: %+v, want %+v", got, want)
		}
		if got, want := c.FIFO.Capabilities(), (queue.Capabilities{NativeDeduplication: true, NativeRetrial: true}); got != want {
			c.Errorf("FIFO queue: %+v, want %+v", got, want)
		}
	}},
	{"SentMessageIsReceivedUntilDeleted", func(c *check) {
		before := c.Now()
		c.send(c.Standard, text("hello"))
		first := c.receive(c.Standard, 1)[0]
		if first.Body != "hello" || first.ID == "" || first.Handle == "" || first.ReceiveCount != 1 {
			c.Fatalf("received %+v", first)
		}
		// The server's clock may be another machine's.
		if d := first.SentAt.Sub(before); d < -2*time.Second || d > 10*time.Second {
			c.Errorf("sent at %s, want about %s", first.SentAt, before)
		}
		c.none(c.Standard, "the message is in flight")
		c.show(c.Standard, first)
		second := c.receiveFor(c.Standard, 1, 0)[0]
		if second.ReceiveCount != 2 || second.ID != first.ID || !second.SentAt.Equal(first.SentAt) {
			c.Errorf("second receipt %+v does not follow from the first %+v", second, first)
		}
		if second.Handle == first.Handle {
			c.Error("two receipts have the same handle")
		}
		c.delete(c.Standard, second)
		c.wait(c.Visibility + time.Second)
		c.none(c.Standard, "the message was deleted")
	}},
	{"EmptyQueueGivesNothing", func(c *check) {
		c.none(c.Standard, "it is empty")
		c.none(c.FIFO, "it is empty")
	}},
	{"QueuesAreApart", func(c *check) {
		c.send(c.Standard, text("s"))
		c.send(c.FIFO, ordered("g", "k", "f"))
		c.none(c.Dead, "nothing was sent to it")
		c.none(c.DeadOrdered, "nothing was sent to it")
		c.bodies(c.receive(c.Standard, 1), "s")
		c.bodies(c.receive(c.FIFO, 1), "f")
	}},
	{"DeadLetterQueuesTakeMessages", func(c *check) {
		c.send(c.Dead, text("d"))
		c.send(c.DeadOrdered, ordered("g", "k", "do"))
		c.bodies(c.receive(c.Dead, 1), "d")
		c.bodies(c.receive(c.DeadOrdered, 1), "do")
	}},
	{"DeletingTwiceIsNoError", func(c *check) {
		c.send(c.Standard, text("x"))
		got := c.receive(c.Standard, 1)
		c.delete(c.Standard, got...)
		c.delete(c.Standard, got...)
	}},
	{"HandleThatIsNoneIsRefused", func(c *check) {
		if err := c.Standard.Delete(c.ctx, "no-handle"); !queue.Refused(err) {
			c.Errorf("deleted by a handle that is none: error %v, want queue.ErrInvalid", err)
		}
		if err := c.Standard.ChangeVisibility(c.ctx, "no-handle", time.Second); !queue.Refused(err) {
			c.Errorf("changed visibility by a handle that is none: error %v, want queue.ErrInvalid", err)
		}
	}},
	{"StaleHandleDeletes", func(c *check) {
		c.send(c.Standard, text("x"))
		first := c.receive(c.Standard, 1)
		c.show(c.Standard, first...)
		second := c.receiveFor(c.Standard, 1, 0)
		c.delete(c.Standard, first...)
		c.delete(c.Standard, second...)
		c.wait(c.Visibility + time.Second)
		c.none(c.Standard, "the message was deleted")
	}},
	{"Attributes", func(c *check) {
		want := map[string]string{"reason": "gave up: <503> & é 🎉", "host.name": "example.org", "n_1-2": "7\t"}
		c.send(c.Standard, queue.Message{Body: "s", Attributes: want})
		c.send(c.FIFO, queue.Message{Body: "f", OrderingKey: "g", DeduplicationKey: "k", Attributes: want})
		c.send(c.Dead, text("none"))
		for _, q := range []queue.Queue{c.Standard, c.FIFO} {
			if got := c.receive(q, 1)[0].Attributes; !maps.Equal(got, want) {
				c.Errorf("attributes %q, want %q", got, want)
			}
		}
		if got := c.receive(c.Dead, 1)[0].Attributes; len(got) != 0 {
			c.Errorf("attributes %q of a message without", got)
		}
	}},
	{"Depth", func(c *check) {
		c.depth(c.Standard, queue.Depth{})
		c.send(c.Standard, text("a"), text("b"), text("c"), queue.Message{Body: "later", Delay: time.Minute})
		c.depth(c.Standard, queue.Depth{Visible: 3, Delayed: 1})
		got := c.receive(c.Standard, 2)
		c.depth(c.Standard, queue.Depth{Visible: 1, InFlight: 2, Delayed: 1})
		c.delete(c.Standard, got[0])
		c.show(c.Standard, got[1])
		c.depth(c.Standard, queue.Depth{Visible: 2, Delayed: 1})
		c.send(c.FIFO, ordered("g", "1", "a"), ordered("g", "2", "b"))
		c.receive(c.FIFO, 1)
		c.depth(c.FIFO, queue.Depth{Visible: 1, InFlight: 1})
	}},
	{"WaitingReceiveIsWokenByASend", func(c *check) {
		ctx, cancel := context.WithTimeout(c.ctx, 15*time.Second)
		defer cancel()
		type result struct {
			got []queue.Received
			err error
		}
		done := make(chan result, 1)
		go func() {
			got, err := c.Standard.Receive(ctx, queue.ReceiveOptions{Max: 1, Wait: 20 * time.Second})
			done <- result{got, err}
		}()
		c.send(c.Standard, text("wake"))
		r := <-done
		if r.err != nil {
			c.Fatalf("receive: %v", r.err)
		}
		c.bodies(r.got, "wake")
	}},
	{"WaitingReceiveEndsWithItsContext", func(c *check) {
		ctx, cancel := context.WithTimeout(c.ctx, 200*time.Millisecond)
		defer cancel()
		got, err := c.Standard.Receive(ctx, queue.ReceiveOptions{Max: 1, Wait: 20 * time.Second})
		if len(got) != 0 || !errors.Is(err, context.DeadlineExceeded) {
			c.Errorf("received %d, error %v, want the context's error", len(got), err)
		}
	}},
}
