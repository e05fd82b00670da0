package admission

import (
	"fmt"
	"testing"
	"time"
)

// TestASmallActivityDoesNotWaitForALargeOne, of which hundreds of recipients wait before it, for
// memory, for places and for processors.
func TestASmallActivityDoesNotWaitForALargeOne(t *testing.T) {
	const large, small = 500, 20
	p := newPlan(Bounds{Places: 100, Computing: 4, Waiting: 50, PerHost: 100})
	inboxes := 0
	attempt := func(activity string, tk *Ticket) *Attempt {
		inboxes++
		return &Attempt{Activity: activity, Host: "h", Site: "s", Inbox: fmt.Sprint(inboxes), Ticket: tk}
	}
	first := attempt("first", nil)
	p.enter(first, 0, 0)
	p.leave(first, Accepted, time.Millisecond)
	p.started = nil

	waits := map[chan struct{}]*Attempt{}
	message := func(activity string) {
		tk := p.take(activity, "", 1, 0, time.Millisecond)
		waits[tk.got] = attempt(activity, tk)
	}
	for range large {
		message("large")
	}
	for i := range small {
		message(fmt.Sprint("small", i))
	}
	begun, smalls := 0, 0
	for smalls < small {
		for len(p.granted) > 0 {
			got := p.granted[0]
			p.granted = p.granted[1:]
			p.enter(waits[got], 0, time.Millisecond)
		}
		if len(p.started) == 0 {
			t.Fatalf("%d of %d small activities have begun, and nothing begins", smalls, small)
		}
		a := p.started[0]
		p.started = p.started[1:]
		p.signed(a, time.Millisecond)
		p.leave(a, Accepted, time.Millisecond)
		if begun++; a.Activity != "large" {
			smalls++
		}
	}
	// Every second one is small, beside what had its place before they came.
	if most := 2*small + 2*4 + 2; begun > most {
		t.Errorf("%d attempts had begun when all %d small activities had, want %d at most", begun, small, most)
	}
	if begun < 2*small-2 {
		t.Errorf("%d attempts had begun when all %d small activities had: the large one had none of them", begun, small)
	}
}
