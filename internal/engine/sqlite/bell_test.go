package sqlite

import (
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
)

// TestABellWakesAsManyAsTakeTheMessages looks at which of four waiters, who take three
// messages at a time, are awake.
func TestABellWakesAsManyAsTakeTheMessages(t *testing.T) {
	const name = queue.Normal
	for about, c := range map[string]struct {
		do   func(b *bell, ws []*waiter)
		want string // a letter for each waiter: awake or sleeping
	}{
		"nothing came":                   {func(*bell, []*waiter) {}, "ssss"},
		"one message":                    {func(b *bell, _ []*waiter) { b.ring(name, 1) }, "sssa"},
		"as many as one takes":           {func(b *bell, _ []*waiter) { b.ring(name, 3) }, "sssa"},
		"one more":                       {func(b *bell, _ []*waiter) { b.ring(name, 4) }, "ssaa"},
		"as many one by one":             {func(b *bell, _ []*waiter) { b.ring(name, 1); b.ring(name, 1); b.ring(name, 1) }, "sssa"},
		"one more, one by one":           {func(b *bell, _ []*waiter) { b.ring(name, 1); b.ring(name, 2); b.ring(name, 1) }, "ssaa"},
		"more than all take":             {func(b *bell, _ []*waiter) { b.ring(name, 100) }, "aaaa"},
		"for another queue":              {func(b *bell, _ []*waiter) { b.ring(queue.Low, 1) }, "ssss"},
		"another time":                   {func(b *bell, _ []*waiter) { b.shift(name) }, "asss"},
		"one after another time":         {func(b *bell, _ []*waiter) { b.shift(name); b.ring(name, 1) }, "asss"},
		"one after it was read":          {func(b *bell, ws []*waiter) { b.ring(name, 1); b.reads(ws[3]) }, "ssss"},
		"one before and one after that":  {func(b *bell, ws []*waiter) { b.ring(name, 1); b.reads(ws[3]); b.ring(name, 1) }, "sssa"},
		"whoever was rung for two left":  {func(b *bell, ws []*waiter) { b.ring(name, 2); b.leave(ws[3]) }, "ssa-"},
		"whoever was rung for some left": {func(b *bell, ws []*waiter) { b.ring(name, 6); b.leave(ws[3]) }, "saa-"},
		"whoever had read left":          {func(b *bell, ws []*waiter) { b.ring(name, 1); b.reads(ws[3]); b.leave(ws[3]) }, "sss-"},
		"the watch left":                 {func(b *bell, ws []*waiter) { b.leave(ws[0]) }, "-ass"},
		"a message for who has not read": {func(b *bell, _ []*waiter) { b.join(name, 3); b.ring(name, 3) }, "ssss"},
	} {
		b := newBell()
		var ws []*waiter
		for range 4 {
			w := b.join(name, 3)
			b.reads(w)
			ws = append(ws, w)
		}
		c.do(b, ws)
		for i, w := range ws {
			if c.want[i] == '-' {
				continue
			}
			if len(w.rung) == 1 != (c.want[i] == 'a') || w.awake != (c.want[i] == 'a') {
				t.Errorf("%s: waiter %d has %d rings, awake %t; want %s", about, i, len(w.rung), w.awake, c.want)
			}
		}
	}
}

// TestAReceiverThatGotOtherMessagesLeavesNoneBehind: ten messages become visible with no
// timer for them, as the clock is set, and the one receiver that wakes for ten new ones gets
// those.
func TestAReceiverThatGotOtherMessagesLeavesNoneBehind(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock()
			q := openAt(t, Memory, Options{Now: c.Now}).Queue(name)
			send := func(first int) {
				t.Helper()
				var ms []queue.Message
				for n := range 10 {
					ms = append(ms, message(name, first+n))
				}
				mustSend(t, q, ms...)
			}
			send(100)
			receive(t, q, queue.ReceiveOptions{Visibility: time.Hour})
			got := make(chan int, 3)
			for range 3 {
				go func() {
					ms, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
					if err != nil {
						t.Error(err)
					}
					got <- len(ms)
				}()
			}
			synctest.Wait()
			c.Advance(2 * time.Hour)
			begun := time.Now()
			send(200)
			if a, b := <-got, <-got; a != 10 || b != 10 || time.Since(begun) > 0 {
				t.Errorf("%s: received %d and %d messages after %s", name, a, b, time.Since(begun))
			}
			if n := <-got; n != 0 {
				t.Errorf("%s: received %d messages that nobody sent", name, n)
			}
		})
	}
}
