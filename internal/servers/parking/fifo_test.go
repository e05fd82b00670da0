package parking_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/message"
	"fedpost/internal/servers/parking"
)

// TestAReleaseIsNeverDroppedAsADuplicate: a FIFO queue remembers a deduplication id for five
// minutes, and drops duplicates silently. A delivery that is released again, because nobody knows
// whether it was released, must reach the queue again, even if the first message was received and
// deleted. A spread that the queue cannot keep is in the message.
func TestAReleaseIsNeverDroppedAsADuplicate(t *testing.T) {
	w, at := newWorld(t), now
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: func() time.Time { return at }, Type: queue.FIFO})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	w.Now, w.Queues = func() time.Time { return at }, func(n queue.Name) queue.Sender { return e.Queue(n) }
	slotted := delivery(3, "")
	slotted.Delivery.Slot = now.Add(20 * time.Second)
	for round := range 3 {
		for _, how := range []parking.Release{{Trial: true}, {Spread: time.Minute}} {
			at = at.Add(time.Millisecond)
			ps := []parking.Parked{delivery(1, ""), delivery(2, ""), slotted}
			if sent, err := w.Send(t.Context(), ps, how); err != nil || len(sent) != 3 {
				t.Fatalf("round %d: sent %d, %v", round, len(sent), err)
			}
			got, err := e.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
			if err != nil || len(got) != 3 {
				t.Fatalf("round %d, %+v: received %d, %v", round, how, len(got), err)
			}
			for i, r := range got {
				m, err := message.Decode(r.Body)
				if err != nil {
					t.Fatal(err)
				}
				want := time.Time{}
				switch {
				case !m.Deliver.Slot.IsZero():
					want = slotted.Delivery.Slot
				case how.Spread > 0:
					want = at.Add(how.Spread / 2)
				}
				if !m.NotBefore.Equal(want) {
					t.Errorf("%+v: message %d may begin at %s, want %s", how, i, m.NotBefore, want)
				}
				if err := e.Queue(queue.Normal).Delete(t.Context(), r.Handle); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
