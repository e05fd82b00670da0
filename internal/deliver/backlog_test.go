package deliver

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestABacklogTakesUpMessagesInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog()
		ctx, cancel := context.WithCancel(t.Context())
		first, ok := b.admit(ctx, "normal", 10, 50)
		if !ok {
			t.Fatal("an empty backlog takes up nothing")
		}
		if other, ok := b.admit(ctx, "high", 10, 50); !ok {
			t.Error("one queue's backlog holds up another queue")
		} else {
			other.end()
		}
		if free, ok := b.admit(ctx, "normal", 0, 50); !ok || free != nil {
			t.Error("a queue without a bound has one")
		}
		var nobody *ticket
		nobody.pass(1)
		nobody.end()
		taken := make([]*ticket, 3)
		for i := range taken {
			go func() { taken[i], _ = b.admit(t.Context(), "normal", 10, 8) }()
			synctest.Wait()
		}
		gone := make(chan bool)
		go func() { _, ok := b.admit(ctx, "normal", 10, 8); gone <- ok }()
		synctest.Wait()
		first.pass(40)
		synctest.Wait()
		if taken[0] != nil {
			t.Error("a message was taken up while 10 recipients wait, which is the most")
		}
		first.pass(1)
		synctest.Wait()
		if taken[0] == nil || taken[1] != nil || taken[2] != nil {
			t.Errorf("with room for one, taken up are %v", taken)
		}
		cancel()
		if <-gone {
			t.Error("a message was taken up after its invocation ended")
		}
		first.end()
		first.end() // nothing counts twice
		synctest.Wait()
		if taken[1] == nil || taken[2] != nil {
			t.Errorf("with room for two, taken up are %v", taken)
		}
		taken[0].end()
		synctest.Wait()
		for _, tk := range taken[1:] {
			tk.end()
		}
		if a := b.queues["normal"]; a.recipients != 0 || a.line.Len() != 0 {
			t.Errorf("%d recipients and %d messages are left", a.recipients, a.line.Len())
		}
	})
}
