package admission

import (
	"fmt"
	"testing"
	"time"
)

// TestMessagesWithoutASenderShareMemoryWithOthers: a flood of them would have all of it.
func TestMessagesWithoutASenderShareMemoryWithOthers(t *testing.T) {
	p := newPlan(Bounds{Waiting: 4})
	now := time.Duration(0)
	held := p.take("held", "x", 8, 0, now)
	var flood []*Ticket
	for i := range 100 {
		flood = append(flood, p.take(fmt.Sprint("flood", i%2), "", 1, 0, now))
	}
	now += time.Second
	p.take("mine", "actor", 1, 0, now)
	mine := p.take("mine", "actor", 1, 0, now)
	granted := func() (n int) {
		for _, f := range flood {
			if f.at == nil {
				n++
			}
		}
		return n
	}
	p.abandon(held)
	for mine.at != nil {
		for _, f := range flood {
			if f.at == nil && f.left > 0 {
				p.abandon(f)
				break
			}
		}
		if granted() == len(flood) {
			t.Fatal("a message of an actor got memory after all of 100 without a sender")
		}
	}
	if n := granted(); n > 20 {
		t.Errorf("a message of an actor got memory after %d of 100 without a sender, which came a second before", n)
	}
}
