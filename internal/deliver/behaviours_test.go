package deliver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/topology"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

func TestEveryTryIsRecordedWithItsAnswer(t *testing.T) {
	w := world.New(t, world.Options{})
	answers := []outcome.Outcome{
		{Class: outcome.Retry, Status: 500, Err: "answered 500", Response: "<h1>oops</h1>"},
		{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"},
		{Class: outcome.Delivered, Status: 201, Note: "second signature form"},
	}
	w.Servers.Script("a.example", func(_ world.Request, n int) outcome.Outcome { return answers[n-1] })
	id := w.Send(w.Activity("Create"), "https://a.example/inbox")
	w.Work()
	r := w.States(id)["https://a.example/inbox"]
	if r.State != activity.Retrying || r.Attempts != 1 || r.LastStatus != 500 || r.LastError != "answered 500" || r.Response != "<h1>oops</h1>" {
		t.Errorf("after the first try: %s", world.Brief(r))
	}
	if wait := r.NextAttemptAt.Sub(w.Clock.Now()); wait < 4*time.Second || wait > 6*time.Second {
		t.Errorf("the next is due in %s", wait)
	}
	w.Run(7*time.Second, time.Second)
	if r = w.States(id)["https://a.example/inbox"]; r.Attempts != 2 || r.LastStatus != 0 || r.LastError != "no answer in time" {
		t.Errorf("after the second: %s", world.Brief(r))
	}
	w.Run(20*time.Second, time.Second)
	if r = w.States(id)["https://a.example/inbox"]; r.State != activity.Delivered || r.Attempts != 3 || r.LastStatus != 201 || r.Note != "second signature form" {
		t.Errorf("after the third: %s", world.Brief(r))
	}
}

func TestBackOffGrowsByTheFactorAndExhaustionIsRecordedWith408(t *testing.T) {
	w := world.New(t, world.Options{Policy: retry.LDP()})
	w.Servers.Script("silent.example", func(world.Request, int) outcome.Outcome {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
	})
	w.Servers.Script("angry.example", world.Answers(500))
	const silent, angry = "https://silent.example/inbox", "https://angry.example/inbox"
	id := w.Send(w.Activity("Create"), silent, angry)
	w.Run(time.Minute, 100*time.Millisecond)

	var at []time.Duration
	for _, r := range w.Servers.Got() {
		if r.Inbox == silent {
			at = append(at, r.At.Sub(world.Start))
		}
	}
	// SQS rounds waits up to whole seconds.
	if want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond}; !slices.Equal(at, want) {
		t.Errorf("tried at %v, want %v", at, want)
	}
	w.Expect(id, map[string]activity.State{silent: activity.Dead, angry: activity.Failed}) // every answer is final
	if r := w.States(id)[silent]; r.LastStatus != 408 || r.Attempts != 4 {
		t.Errorf("the record is %s, want 4 attempts and 408", world.Brief(r))
	}
	if len(w.DeadLetters.Deaths) != 1 || w.DeadLetters.Deaths[0].Reason != "exhausted" {
		t.Errorf("given up: %s", world.Brief(w.DeadLetters.Deaths))
	}
	log := w.Log.String()
	if !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "target="+silent) || !strings.Contains(log, "tries=4") {
		t.Errorf("no error names target and tries: %s", log)
	}
}

func TestTheWaitOfOneDelaysNoOther(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("slow.example", world.Then(4, world.Answers(500), nil))
	for range 20 {
		w.Send(w.Activity("Create"), "https://slow.example/inbox", "https://fast.example/inbox")
	}
	w.Work()
	n := 0
	for _, r := range w.Servers.Got() {
		if r.Accepted && strings.Contains(r.Inbox, "fast") {
			n++
		}
	}
	if n != 20 {
		t.Errorf("%d of 20 were delivered at once", n)
	}
}

func TestEveryFailedAttemptIsLogged(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("a.example", world.Then(2, world.Answers(500), nil))
	id := w.Send(w.Activity("Create"), "https://a.example/inbox")
	w.Run(time.Minute, time.Second)
	log := w.Log.String()
	for _, want := range []string{
		"attempt=1 state=retrying", "remaining=4", "attempt=2", "remaining=3", "activity=" + string(id), "type=Create",
		"target=https://a.example/inbox", `error="answered 500"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
}

// broken is a table that can be out of order.
type broken struct {
	table.Table
	down *atomic.Bool
}

var errDown = errors.New("injected: the table is down")

func TestAnOutageOfTheStoreHarmsNoDelivery(t *testing.T) {
	for _, outage := range []time.Duration{10 * time.Minute, 6 * time.Hour, 30 * time.Hour} {
		t.Run(outage.String(), func(t *testing.T) {
			var down atomic.Bool
			w := world.New(t, world.Options{Table: func(tbl table.Table) table.Table { return outOfOrder(tbl, &down) }})
			const a, b = "https://a.example/inbox", "https://b.example/inbox"
			w.Servers.Script("b.example", world.Then(1, world.Answers(500), nil))
			before := w.Send(w.Activity("Create"), a, b)
			w.Work()
			down.Store(true)
			during := w.Send(w.Activity("Create"), a, b)
			ordered := w.Activity("Update")
			ordered.OrderingKey = "k"
			inOrder := w.Send(ordered, a)
			w.Run(outage, 30*time.Second)
			if n := len(w.Servers.Got()); n != 2 {
				t.Errorf("%d attempts while nothing could be recorded", n-2)
			}
			down.Store(false)
			w.Run(2*time.Hour, 30*time.Second)
			for _, id := range []activity.ID{before, during} {
				w.Expect(id, map[string]activity.State{a: activity.Delivered, b: activity.Delivered})
			}
			w.Expect(inOrder, map[string]activity.State{a: activity.Delivered})
			for id, by := range w.Servers.Accepted() {
				for inbox, n := range by {
					if n != 1 {
						t.Errorf("%s got %s %d times", inbox, id, n)
					}
				}
			}
			w.Quiet()
		})
	}
}

func TestCancelStopsWhatIsNotDelivered(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("slow.example", world.Answers(500))
	w.Servers.Script("down.example", world.Down)
	w.Send(w.Activity("Create"), "https://down.example/inbox")
	w.Run(2*time.Minute, time.Second) // its circuit is open
	id := w.Send(w.Activity("Create"), "https://fast.example/inbox", "https://slow.example/inbox", "https://down.example/inbox")
	w.Work()
	if err := w.Store.CancelActivity(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	never := w.Send(w.Activity("Create"), inboxes(200)...)
	if err := w.Store.CancelActivity(t.Context(), never); err != nil {
		t.Fatal(err)
	}
	before := len(w.Servers.Got())
	w.Servers.Script("slow.example", nil)
	w.Servers.Script("down.example", nil)
	w.Run(2*time.Hour, 10*time.Second)
	for _, r := range w.Servers.Got()[before:] {
		if r.Activity.ID == id || r.Activity.ID == never {
			t.Errorf("%s was sent to after it was cancelled", r.Inbox)
		}
	}
	w.Expect(id, map[string]activity.State{"https://fast.example/inbox": activity.Delivered})
	w.Quiet()
}

func TestWhatHasExpiredIsNotSent(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	a := w.Activity("Create")
	a.ExpiresAt = w.Clock.Now().Add(10 * time.Minute)
	w.Send(a, "https://down.example/inbox", "https://fine.example/inbox")
	late := w.Activity("Create")
	late.ExpiresAt = w.Clock.Now()
	w.Send(late, "https://fine.example/inbox")
	w.Run(9*time.Minute, 10*time.Second)
	w.Servers.Script("down.example", nil)
	before := len(w.Servers.Got())
	w.Run(2*time.Hour, time.Minute)
	for _, r := range w.Servers.Got()[before:] {
		t.Errorf("%s was sent to", r.Inbox)
	}
	if n := w.Servers.Accepted()[late.ID]; len(n) > 0 {
		t.Error("what had expired before it was tried was sent")
	}
	if len(w.DeadLetters.Deaths) > 0 {
		t.Errorf("expired deliveries are no dead letters: %s", world.Brief(w.DeadLetters.Deaths))
	}
	w.Quiet()
}

// TestAMessageThatEndsProcessesIsGivenUpInOrder: the process dies in the middle
// of each receipt, so only the queue's count of receives shows it. If another process dies
// while it gives the message up, the next one does so.
func TestAMessageThatEndsProcessesIsGivenUpInOrder(t *testing.T) {
	for _, last := range []int{0, 1, 40, 74} {
		t.Run(fmt.Sprint(last, " receives before the last"), func(t *testing.T) { endsProcesses(t, last) })
	}
}

func endsProcesses(t *testing.T, last int) {
	w := world.New(t, world.Options{})
	id := w.Send(w.Activity("Create"), "https://a.example/inbox", "https://b.example/inbox")
	limit := topology.Of(queue.Normal).MaxReceives
	q := w.Engine.Queue(queue.Normal)
	for range limit - 1 - last {
		got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1})
		if err != nil || len(got) != 1 {
			t.Fatalf("%d received, %v", len(got), err)
		}
		w.Clock.Advance(topology.Of(queue.Normal).Visibility) // it dies
	}
	w.Work()
	w.Expect(id, map[string]activity.State{"https://a.example/inbox": activity.Dead, "https://b.example/inbox": activity.Dead})
	if len(w.DeadLetters.Deaths) != 2 || w.DeadLetters.Deaths[0].Reason != "receives" {
		t.Errorf("given up: %s", world.Brief(w.DeadLetters.Deaths))
	}
	if n := len(w.Servers.Got()); n > 0 {
		t.Errorf("%d attempts", n)
	}
	w.Quiet()
}

func TestAMessageThatOnlyWaitsIsPutOnItsQueueAnew(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		w := world.New(t, world.Options{QueueType: typ, Limits: deliver.Limits{MaxReceives: func(queue.Name) int { return 77 }}})
		w.Servers.Script("a.example", func(_ world.Request, n int) outcome.Outcome {
			if w.Clock.Now().Before(world.Start.Add(3 * time.Hour)) {
				return outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried, Err: "the key could not be loaded"}
			}
			return world.Status(202)
		})
		id := w.Send(w.Activity("Create"), "https://a.example/inbox")
		w.Run(4*time.Hour, 5*time.Second)
		w.Expect(id, map[string]activity.State{"https://a.example/inbox": activity.Delivered})
		if r := w.States(id)["https://a.example/inbox"]; r.Attempts != 1 {
			t.Errorf("%d attempts were counted", r.Attempts)
		}
		w.Quiet()
	})
}

func TestAFailureComesBackByItselfAfterAWaitOfTheQueue(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		w := world.New(t, world.Options{QueueType: typ})
		w.Servers.Script("a.example", world.Then(4, world.Answers(500), nil))
		w.Send(w.Activity("Create"), "https://a.example/inbox")
		w.Run(3*time.Minute, 100*time.Millisecond)
		var waits []time.Duration
		got := w.Servers.Got()
		for i := range got[1:] {
			waits = append(waits, got[i+1].At.Sub(got[i].At))
		}
		if len(waits) != 4 {
			t.Fatalf("%d tries", len(got))
		}
		for i, mean := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if slack := mean/5 + 200*time.Millisecond; (waits[i] - mean).Abs() > slack {
				t.Errorf("wait %d was %s, want %s give or take %s", i+1, waits[i], mean, slack)
			}
		}
		if fmt.Sprint(waits) == "[5s 10s 20s 40s]" {
			t.Error("the waits have no jitter")
		}
	})
}
