package sqlite

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
)

// TestRecallBringsBackWhatADeadProcessHadReceived opens a file again while
// messages on it are in flight: their receiver is gone, so they are visible at
// once. Messages that their sender delayed stay delayed.
func TestRecallBringsBackWhatADeadProcessHadReceived(t *testing.T) {
	path := file(t)
	e := openAt(t, path, Options{})
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "received"})
	for _, body := range []string{"first", "second"} {
		mustSend(t, e.Queue(queue.Ordered), queue.Message{Body: body, OrderingKey: "g", DeduplicationKey: body})
	}
	for _, n := range []queue.Name{queue.Normal, queue.Ordered} {
		if got, err := e.Queue(n).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Visibility: time.Hour}); err != nil || len(got) != 1 {
			t.Fatalf("%s: received %v, %v", n, got, err)
		}
	}
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "delayed", Delay: time.Minute})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	e = openAt(t, path, Options{})
	if err := e.Recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[queue.Name][]string{queue.Normal: {"received"}, queue.Ordered: {"first", "second"}} {
		got, err := e.Queue(n).Receive(t.Context(), queue.ReceiveOptions{Max: queue.MaxBatch})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: received %v, %v", n, got, err)
		}
		for i, r := range got {
			if r.Body != want[i] {
				t.Errorf("%s: %q came, want %q", n, r.Body, want[i])
			}
		}
		if got[0].ReceiveCount != 2 {
			t.Errorf("%s: receive count %d, want 2", n, got[0].ReceiveCount)
		}
	}
}
