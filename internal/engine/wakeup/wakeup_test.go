package wakeup

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
)

// TestANotifierWakesAsManyAsTakeTheMessages looks at which of four waiters, who take three
// messages at a time, are awake.
func TestANotifierWakesAsManyAsTakeTheMessages(t *testing.T) {
	const name = queue.Normal
	for about, c := range map[string]struct {
		do   func(n *Notifier, ws []*Waiter)
		want string // a letter for each waiter: awake or sleeping
	}{
		"nothing came":                    {func(*Notifier, []*Waiter) {}, "ssss"},
		"one message":                     {func(n *Notifier, _ []*Waiter) { n.Wake(name, 1) }, "sssa"},
		"as many as one takes":            {func(n *Notifier, _ []*Waiter) { n.Wake(name, 3) }, "sssa"},
		"one more":                        {func(n *Notifier, _ []*Waiter) { n.Wake(name, 4) }, "ssaa"},
		"as many one by one":              {func(n *Notifier, _ []*Waiter) { n.Wake(name, 1); n.Wake(name, 1); n.Wake(name, 1) }, "sssa"},
		"one more, one by one":            {func(n *Notifier, _ []*Waiter) { n.Wake(name, 1); n.Wake(name, 2); n.Wake(name, 1) }, "ssaa"},
		"more than all take":              {func(n *Notifier, _ []*Waiter) { n.Wake(name, 100) }, "aaaa"},
		"for another queue":               {func(n *Notifier, _ []*Waiter) { n.Wake(queue.Low, 1) }, "ssss"},
		"another time":                    {func(n *Notifier, _ []*Waiter) { n.Shift(name, 0) }, "asss"},
		"one after another time":          {func(n *Notifier, _ []*Waiter) { n.Shift(name, 0); n.Wake(name, 1) }, "asss"},
		"one after it was read":           {func(n *Notifier, ws []*Waiter) { n.Wake(name, 1); n.Reads(ws[3]) }, "ssss"},
		"one before and one after that":   {func(n *Notifier, ws []*Waiter) { n.Wake(name, 1); n.Reads(ws[3]); n.Wake(name, 1) }, "sssa"},
		"whoever was woken for two left":  {func(n *Notifier, ws []*Waiter) { n.Wake(name, 2); n.Leave(ws[3]) }, "ssa-"},
		"whoever was woken for some left": {func(n *Notifier, ws []*Waiter) { n.Wake(name, 6); n.Leave(ws[3]) }, "saa-"},
		"whoever had read left":           {func(n *Notifier, ws []*Waiter) { n.Wake(name, 1); n.Reads(ws[3]); n.Leave(ws[3]) }, "sss-"},
		"sooner than the leader wakes":    {func(n *Notifier, ws []*Waiter) { n.sleeps(ws[0], time.Hour); n.Shift(name, time.Minute) }, "asss"},
		"later than the leader wakes":     {func(n *Notifier, ws []*Waiter) { n.sleeps(ws[0], time.Second); n.Shift(name, time.Minute) }, "ssss"},
		"the leader left":                 {func(n *Notifier, ws []*Waiter) { n.Leave(ws[0]) }, "-ass"},
		"a message for who has not read":  {func(n *Notifier, _ []*Waiter) { n.Join(name, 3); n.Wake(name, 3) }, "ssss"},
	} {
		n := New()
		var ws []*Waiter
		for range 4 {
			w := n.Join(name, 3)
			n.Reads(w)
			ws = append(ws, w)
		}
		c.do(n, ws)
		for i, w := range ws {
			if c.want[i] == '-' {
				continue
			}
			if len(w.woken) == 1 != (c.want[i] == 'a') || w.awake != (c.want[i] == 'a') {
				t.Errorf("%s: waiter %d has %d wake-ups, awake %t; want %s", about, i, len(w.woken), w.awake, c.want)
			}
		}
	}
}

// parked is the receive that a waiter has parked.
type parked struct{ Parked }

// TestASendUnparksAsManyAsTakeTheMessages looks at which of four waiters, who sleep and take three
// messages at a time, an engine gets.
func TestASendUnparksAsManyAsTakeTheMessages(t *testing.T) {
	const name = queue.Normal
	for about, c := range map[string]struct {
		before   func(n *Notifier, ws []*Waiter)
		messages int
		want     string // a letter for each waiter: unparked, awake or sleeping
		left     int
	}{
		"one message":               {nil, 1, "sssu", 0},
		"as many as one takes":      {nil, 3, "sssu", 0},
		"one more":                  {nil, 4, "ssuu", 0},
		"more than all take":        {nil, 13, "uuuu", 1},
		"one is awake":              {func(n *Notifier, _ []*Waiter) { n.Wake(name, 1) }, 1, "ssua", 0},
		"one gave up":               {func(n *Notifier, ws []*Waiter) { n.withdraw(ws[3]) }, 1, "ssus", 0},
		"another send is under way": {func(n *Notifier, _ []*Waiter) { n.Unpark(name, 1) }, 1, "ssuu", 0},
	} {
		n := New()
		var ws []*Waiter
		for range 4 {
			w := n.Join(name, 3)
			n.Reads(w)
			w.parked = parked{}
			ws = append(ws, w)
		}
		if c.before != nil {
			c.before(n, ws)
		}
		if _, left := n.Unpark(name, c.messages); left != c.left {
			t.Errorf("%s: %d messages are left, want %d", about, left, c.left)
		}
		for i, w := range ws {
			got := byte('s')
			switch {
			case w.awake && w.parked == nil:
				got = 'u'
			case w.awake:
				got = 'a'
			}
			if got != c.want[i] {
				t.Errorf("%s: waiter %d is %c, want %s", about, i, got, c.want)
			}
		}
	}
}

// TestAReceiverReadsFirstUnlessOthersHaveRead looks at one that joins.
func TestAReceiverReadsFirstUnlessOthersHaveRead(t *testing.T) {
	const name = queue.Normal
	for about, c := range map[string]struct {
		before func(n *Notifier)
		awake  bool
	}{
		"nobody waits":       {func(*Notifier) {}, true},
		"another waits":      {func(n *Notifier) { n.Reads(n.Join(name, 3)) }, false},
		"another has left":   {func(n *Notifier) { n.Leave(n.Join(name, 3)) }, true},
		"more than it takes": {func(n *Notifier) { n.Reads(n.Join(name, 3)); n.Wake(name, 4) }, true},
		"whoever was woken left": {func(n *Notifier) {
			n.Reads(n.Join(name, 1))
			w := n.Join(name, 1)
			n.Reads(w)
			n.Wake(name, 2)
			n.Leave(w)
		}, true},
		"another has read since": {func(n *Notifier) {
			w := n.Join(name, 3)
			n.Wake(name, 4)
			n.Reads(w)
		}, false},
	} {
		n := New()
		c.before(n)
		if w := n.Join(name, 3); n.park(w, nil) == c.awake {
			t.Errorf("%s: it is awake: %t", about, !c.awake)
		}
	}
}
