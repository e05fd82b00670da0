package enqueue_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/message/agenda"
	"fedpost/internal/testkit/faults"
)

// noncharacters is a body that holds the two characters that JSON allows and SQS
// refuses.
const noncharacters = `{"actor":"x","content":"` + "\ufffe\uffff" + `"}`

// releaseAll lets the agenda run once.
func (w *world) releaseAll() {
	w.Helper()
	if _, err := w.release.Release(w.Context(), w.clock); err != nil {
		w.Fatal(err)
	}
}

func TestNoncharactersArriveByteForByte(t *testing.T) {
	for name, r := range map[string]enqueue.Request{
		"at once":          request(body(noncharacters)),
		"delayed":          request(body(noncharacters), delay(20*time.Minute)),
		"ordered":          request(body(noncharacters), ordered("g"), key("k")),
		"ordered, delayed": request(body(noncharacters), ordered("g"), delay(time.Minute)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			w.must(r, enqueue.Queued)
			w.wait(time.Hour)
			w.releaseAll()
			if got := w.one().Message.Activity.Body; got != noncharacters {
				t.Errorf("body %q", got)
			}
		})
	}
}

func TestNoncharactersBehindAClaimCheck(t *testing.T) {
	w := newWorld(t, faults.NewPlan(), func(s *settings) { s.maxMessage = 2000 })
	r := request(body(noncharacters))
	for i := range 200 {
		r.Recipients = append(r.Recipients, enqueue.Recipient{Inbox: fmt.Sprintf("https://host%d.example/inbox", i)})
	}
	w.must(r, enqueue.Queued)
	if got := w.one(); got.Message.Activity.Body != noncharacters || len(got.Raw.Body) > 200 {
		t.Errorf("body %q in a message of %d bytes", got.Message.Activity.Body, len(got.Raw.Body))
	}
}

// TestWhatAnEarlierVersionStoredIsRepaired: an earlier version's tasks hold the
// two characters unescaped.
func TestWhatAnEarlierVersionStoredIsRepaired(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	ids := map[activity.ID]bool{}
	for i := range 120 { // more than two pages
		id := w.must(request(ordered("g"), delay(20*time.Minute), body(fmt.Sprintf(`{"actor":"x","n":%d}`, i))), enqueue.Queued)
		ids[id] = true
		if i != 0 {
			continue
		}
		text := fmt.Sprintf(`{"v":1,"activity":{"id":%q,"body":"`+"\uffff"+`","orderingKey":"g"},"fanout":{"targets":["https://a.example/inbox"]}}`, id)
		old := agenda.Task{ID: string(id), Queue: queue.Ordered, Body: text, Group: "g", Key: string(id), DueAt: w.clock.Add(20 * time.Minute), Forget: w.clock.Add(99 * time.Hour)}
		if err := w.truth.PutTask(t.Context(), old); err != nil {
			t.Fatal(err)
		}
	}
	w.wait(time.Hour)
	w.releaseAll()
	got := w.arrived()
	if len(got) != 120 || got[0].Message.Activity.Body != "\uffff" {
		t.Fatalf("%d arrived, the first with %q", len(got), got[0].Message.Activity.Body)
	}
	for i := range got[1:] {
		if got[i].Message.Activity.ID >= got[i+1].Message.Activity.ID {
			t.Fatal("out of order")
		}
	}
}
