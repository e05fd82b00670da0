package bell

import (
	"testing"

	"fedpost/internal/engine/queue"
)

// TestABellWakesAsManyAsTakeTheMessages looks at which of four waiters, who take three
// messages at a time, are awake.
func TestABellWakesAsManyAsTakeTheMessages(t *testing.T) {
	const name = queue.Normal
	for about, c := range map[string]struct {
		do   func(b *Bell, ws []*Waiter)
		want string // a letter for each waiter: awake or sleeping
	}{
		"nothing came":                   {func(*Bell, []*Waiter) {}, "ssss"},
		"one message":                    {func(b *Bell, _ []*Waiter) { b.Ring(name, 1) }, "sssa"},
		"as many as one takes":           {func(b *Bell, _ []*Waiter) { b.Ring(name, 3) }, "sssa"},
		"one more":                       {func(b *Bell, _ []*Waiter) { b.Ring(name, 4) }, "ssaa"},
		"as many one by one":             {func(b *Bell, _ []*Waiter) { b.Ring(name, 1); b.Ring(name, 1); b.Ring(name, 1) }, "sssa"},
		"one more, one by one":           {func(b *Bell, _ []*Waiter) { b.Ring(name, 1); b.Ring(name, 2); b.Ring(name, 1) }, "ssaa"},
		"more than all take":             {func(b *Bell, _ []*Waiter) { b.Ring(name, 100) }, "aaaa"},
		"for another queue":              {func(b *Bell, _ []*Waiter) { b.Ring(queue.Low, 1) }, "ssss"},
		"another time":                   {func(b *Bell, _ []*Waiter) { b.Shift(name) }, "asss"},
		"one after another time":         {func(b *Bell, _ []*Waiter) { b.Shift(name); b.Ring(name, 1) }, "asss"},
		"one after it was read":          {func(b *Bell, ws []*Waiter) { b.Ring(name, 1); b.Reads(ws[3]) }, "ssss"},
		"one before and one after that":  {func(b *Bell, ws []*Waiter) { b.Ring(name, 1); b.Reads(ws[3]); b.Ring(name, 1) }, "sssa"},
		"whoever was rung for two left":  {func(b *Bell, ws []*Waiter) { b.Ring(name, 2); b.Leave(ws[3]) }, "ssa-"},
		"whoever was rung for some left": {func(b *Bell, ws []*Waiter) { b.Ring(name, 6); b.Leave(ws[3]) }, "saa-"},
		"whoever had read left":          {func(b *Bell, ws []*Waiter) { b.Ring(name, 1); b.Reads(ws[3]); b.Leave(ws[3]) }, "sss-"},
		"the watch left":                 {func(b *Bell, ws []*Waiter) { b.Leave(ws[0]) }, "-ass"},
		"a message for who has not read": {func(b *Bell, _ []*Waiter) { b.Join(name, 3); b.Ring(name, 3) }, "ssss"},
	} {
		b := New()
		var ws []*Waiter
		for range 4 {
			w := b.Join(name, 3)
			b.Reads(w)
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
