package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
)

func (c *check) batch(q queue.Queue, ms []queue.Message, want ...error) {
	c.Helper()
	errs := q.SendBatch(c.ctx, ms)
	if len(errs) != len(ms) {
		c.Fatalf("%d errors for %d messages", len(errs), len(ms))
	}
	for i, err := range errs {
		var expect error
		if i < len(want) {
			expect = want[i]
		}
		if !errors.Is(err, expect) || (expect != nil && !queue.NotSent(err)) {
			c.Errorf("message %d: error %v, want %v", i, err, expect)
		}
	}
}

var tooLong = strings.Repeat("x", queue.MaxBytes+1)

var batchCases = []testCase{
	{"BatchOfNone", func(c *check) {
		c.batch(c.Standard, nil)
		c.none(c.Standard, "nothing was sent")
	}},
	{"BatchOfMoreThanTen", func(c *check) {
		want := numbered("m%02d", 23)
		var ms []queue.Message
		for _, b := range want {
			ms = append(ms, text(b))
		}
		c.batch(c.Standard, ms)
		c.sameBodies(c.receive(c.Standard, 23), want...)
	}},
	{"BatchOfMoreThanAMebibyte", func(c *check) {
		var ms []queue.Message
		var want []string
		for i := range 5 {
			body := fmt.Sprint(i) + strings.Repeat("y", 400<<10)
			ms, want = append(ms, text(body)), append(want, body)
		}
		c.batch(c.Standard, ms)
		c.sameBodies(c.receive(c.Standard, 5), want...)
	}},
	{"BatchCountsAttributesToo", func(c *check) {
		var ms []queue.Message
		for i := range 2 {
			ms = append(ms, queue.Message{Body: fmt.Sprint(i), Attributes: map[string]string{"big": strings.Repeat("z", 700<<10)}})
		}
		c.batch(c.Standard, ms)
		c.sameBodies(c.receive(c.Standard, 2), "0", "1")
	}},
	{"BatchFailsOneByOne", func(c *check) {
		c.batch(c.Standard,
			[]queue.Message{text("good"), text(tooLong), text("also good"), text("nul \x00"), {Body: "x", Delay: time.Hour}, text("last")},
			nil, queue.ErrTooLarge, nil, queue.ErrInvalid, queue.ErrInvalid, nil)
		c.sameBodies(c.receive(c.Standard, 3), "good", "also good", "last")
		c.none(c.Standard, "the others failed")
	}},
	{"BatchKeepsTheOrderOfItsGroups", func(c *check) {
		var ms []queue.Message
		want := make(map[string][]string)
		for i := range 25 {
			g := fmt.Sprint("g", i%2)
			body := fmt.Sprintf("%s-%02d", g, i)
			ms = append(ms, ordered(g, body, body))
			want[g] = append(want[g], body)
		}
		c.batch(c.FIFO, ms)
		got := make(map[string][]string)
		for range ms {
			r := c.receive(c.FIFO, 1)[0]
			g, _, _ := strings.Cut(r.Body, "-")
			got[g] = append(got[g], r.Body)
			c.delete(c.FIFO, r)
		}
		for g := range want {
			if fmt.Sprint(got[g]) != fmt.Sprint(want[g]) {
				c.Errorf("group %s came as %s, want %s", g, got[g], want[g])
			}
		}
	}},
	{"BatchStopsAGroupAtItsFailure", func(c *check) {
		c.batch(c.FIFO, []queue.Message{
			ordered("a", "1", "a1"), ordered("b", "1", "b1"), ordered("a", "2", tooLong),
			ordered("a", "3", "a3"), ordered("b", "2", "b2"),
		}, nil, nil, queue.ErrTooLarge, queue.ErrNotSent, nil)
		var got []queue.Received
		for range 3 {
			r := c.receive(c.FIFO, 1)
			c.delete(c.FIFO, r...)
			got = append(got, r...)
		}
		c.sameBodies(got, "a1", "b1", "b2")
		c.none(c.FIFO, "a3 follows a message of its group that failed")
	}},
	{"BatchWithACancelledContextSendsNothing", func(c *check) {
		ctx, cancel := context.WithCancel(c.ctx)
		cancel()
		for i, err := range c.Standard.SendBatch(ctx, []queue.Message{text("a"), text("b")}) {
			if err == nil {
				c.Errorf("message %d was sent", i)
			}
		}
		c.none(c.Standard, "the context had ended before")
	}},
}
