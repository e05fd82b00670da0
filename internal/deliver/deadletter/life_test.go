package deadletter_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

// afterlife is a world that writes dead letters and revives them.
type afterlife struct {
	*world.World
	writer  deadletter.Writer
	reviver deadletter.Reviver
}

func newAfterlife(t *testing.T, o world.Options) *afterlife {
	t.Helper()
	o.Policy = retry.ActivityPub()
	o.Policy.Tries, o.Policy.Park = 2, false
	o.Limits = deliver.Limits{Messages: 1, InFlight: 1}
	w := &afterlife{World: world.New(t, o)}
	w.Servers.Spare()
	queues := func(n queue.Name) queue.Sender { return w.Config().Queues(n) }
	w.writer = deadletter.Writer{Store: w.Store, Queues: queues, Keep: 30 * 24 * time.Hour}
	w.reviver = deadletter.Reviver{Store: deadletter.Current{Store: w.Store, Ledger: w.Store}, Queues: queues, Now: w.Clock.Now}
	return w
}

// pass lets time pass, with work every half minute by a process that knows nothing
// of the one before.
func (w *afterlife) pass(d time.Duration) {
	w.T.Helper()
	config := w.Config()
	config.DeadLetters = w.writer
	const step = 30 * time.Second
	for range int(d / step) {
		for busy := true; busy; {
			busy = false
			for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
				w.Deliver = deliver.New(config)
				busy = w.Poll(name) > 0 || busy
			}
		}
		w.Clock.Advance(step)
	}
}

// insist tries until f succeeds, as operators and schedules do.
func (w *afterlife) insist(p *faults.Plan, f func() error) {
	w.T.Helper()
	var err error
	for range 3 {
		if err = f(); err == nil {
			return
		}
		if p != nil && p.Dead() {
			p.Revive()
		}
	}
	w.T.Fatal(err)
}

func (w *afterlife) dead(f deadletter.Filter) (ls []deadletter.DeadLetter) {
	w.T.Helper()
	// Beside the plan: looking is not what it is to break.
	beside := store.New(w.Engine.Table(), w.Clock.Now)
	list := deadletter.Current{Store: beside, Ledger: beside}
	for cursor := ""; ; {
		page, next, err := list.DeadLetters(context.Background(), f, cursor, 100)
		if err != nil {
			w.T.Fatal(err)
		}
		ls = append(ls, page...)
		if cursor = next; next == "" {
			return ls
		}
	}
}

// notices takes what lies in a queue of dead letters.
func (w *afterlife) notices(n queue.Name) []queue.Received {
	w.T.Helper()
	var all []queue.Received
	for {
		got, err := w.Engine.Queue(n).Receive(context.Background(), queue.ReceiveOptions{Max: 10, Visibility: time.Second})
		if err != nil {
			w.T.Fatal(err)
		}
		if len(got) == 0 {
			w.Clock.Advance(2 * time.Second)
			return all
		}
		all = append(all, got...)
	}
}

const (
	sickInbox = "https://sick.example/inbox"
	noInbox   = "https://refuses.example/inbox"
)

// sicken lets a server fail until it is mended.
func (w *afterlife) sicken() (mend func()) {
	w.Servers.Script("sick.example", world.Answers(500))
	w.Servers.Script("refuses.example", world.Answers(404))
	return func() { w.Servers.Script("sick.example", world.Answers(202)) }
}

func TestWhatIsGivenUpIsALetterAndAMessageWithItsReason(t *testing.T) {
	for _, key := range []string{"", "thread"} {
		w := newAfterlife(t, world.Options{})
		w.sicken()
		a := w.Activity("Create")
		a.OrderingKey = key
		id := w.Send(a, sickInbox, noInbox)
		w.pass(10 * time.Minute)
		// Failed for good is not dead.
		w.Expect(id, map[string]activity.State{sickInbox: activity.Dead, noInbox: activity.Failed})
		ls := w.dead(deadletter.Filter{})
		if len(ls) != 1 {
			t.Fatalf("%d dead letters", len(ls))
		}
		if l := ls[0]; l.Activity.ID != id || l.Host() != "sick.example" || l.Reason != "exhausted" || l.Last.Attempts != 2 ||
			l.Last.LastStatus != 500 || l.Last.State != activity.Dead || !l.Forget.Equal(l.Died.Add(30*24*time.Hour)) {
			t.Errorf("the dead letter is %+v", l)
		}
		from := queue.Normal
		if key != "" {
			from = queue.Ordered
		}
		ms := w.notices(from.DeadLetter())
		if len(ms) != 1 {
			t.Fatalf("%d messages in %s", len(ms), from.DeadLetter())
		}
		got := ms[0].Attributes
		if got[intake.AttributeReason] != "exhausted" || got[intake.AttributeError] != "answered 500" || got[intake.AttributeSource] != string(from) {
			t.Errorf("the message says %v", got)
		}
	}
}

func TestARevivedDeliveryBeginsAnew(t *testing.T) {
	for _, key := range []string{"", "thread"} {
		w := newAfterlife(t, world.Options{})
		mend := w.sicken()
		a := w.Activity("Create")
		a.OrderingKey = key
		id := w.Send(a, sickInbox)
		w.pass(10 * time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Dead})
		// It was too old to be delivered at all, had it not been revived.
		w.Clock.Advance(8 * 24 * time.Hour)

		// The first time it dies again, after all of its tries.
		for _, want := range []activity.State{activity.Dead, activity.Delivered} {
			if want == activity.Delivered {
				mend()
			}
			before := len(w.Servers.Got())
			n, _, err := w.reviver.Revive(t.Context(), deadletter.Filter{Activity: id}, "", 10)
			if n != 1 || err != nil {
				t.Fatalf("revived %d, %v", n, err)
			}
			w.pass(10 * time.Minute)
			w.Expect(id, map[string]activity.State{sickInbox: want})
			tries := map[activity.State]int{activity.Dead: 2, activity.Delivered: 1}[want]
			if got := len(w.Servers.Got()) - before; got != tries {
				t.Errorf("%s after %d tries, want %d", want, got, tries)
			}
		}
		if ls := w.dead(deadletter.Filter{}); len(ls) != 0 {
			t.Errorf("dead letters left: %+v", ls)
		}
	}
}

// redrive moves the messages of the dead-letter queue to a queue, as SQS does for operators, and
// returns their number.
func (w *afterlife) redrive(t *testing.T, to queue.Name) int {
	t.Helper()
	dead, q := w.Engine.Queue(to.DeadLetter()), w.Engine.Queue(to)
	got, err := dead.Receive(t.Context(), queue.ReceiveOptions{Max: queue.MaxBatch})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		m := queue.Message{Body: r.Body, Attributes: r.Attributes}
		if q.Capabilities().NativeDeduplication {
			m.OrderingKey, m.DeduplicationKey = r.OrderingKey, "redriven "+r.ID
		}
		if err := q.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := dead.Delete(t.Context(), r.Handle); err != nil {
			t.Fatal(err)
		}
	}
	return len(got)
}

func TestTheQueuesOwnRedriveRevivesToo(t *testing.T) {
	for _, key := range []string{"", "thread"} {
		w := newAfterlife(t, world.Options{Engine: engines.Embedded()})
		mend := w.sicken()
		a := w.Activity("Create")
		a.OrderingKey = key
		id := w.Send(a, sickInbox)
		w.pass(10 * time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Dead})
		mend()
		to := queue.Normal
		if key != "" {
			to = queue.Ordered
		}
		if n := w.redrive(t, to); n != 1 {
			t.Fatalf("redrove %d", n)
		}
		w.pass(time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Delivered})
		// The dead letter stayed behind. Lists leave it out, and reviving it is harmless.
		if ls := w.dead(deadletter.Filter{}); len(ls) != 0 {
			t.Errorf("dead letters of recipients that are alive: %+v", ls)
		}
		blind := w.reviver
		blind.Store = w.Store
		if n, _, err := blind.Revive(t.Context(), deadletter.Filter{Activity: id}, "", 10); n != 1 || err != nil {
			t.Fatalf("revived %d, %v", n, err)
		}
		w.pass(time.Minute)
		if n := w.Servers.Accepted()[id][sickInbox]; n != 1 {
			t.Errorf("delivered %d times", n)
		}
	}
}

func TestRevivingTwiceDeliversOnce(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	mend := w.sicken()
	id := w.Send(w.Activity("Create"), sickInbox)
	w.pass(10 * time.Minute)
	ls := w.dead(deadletter.Filter{})
	mend()
	for range 3 {
		if n, _, err := w.reviver.Revive(t.Context(), deadletter.Filter{Activity: id}, "", 10); n != 1 || err != nil {
			t.Fatalf("revived %d, %v", n, err)
		}
		// As if the process had died before the dead letter was removed.
		if err := w.Store.AddDeadLetters(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(10 * time.Minute)
	if n := w.Servers.Accepted()[id][sickInbox]; n != 1 {
		t.Errorf("delivered %d times", n)
	}
}

// TestNothingIsLostWhateverCallFailsWhileDyingAndReviving breaks every call
// of a life with death and revival.
func TestNothingIsLostWhateverCallFailsWhileDyingAndReviving(t *testing.T) {
	var doubles atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d requests were sent twice, each in the gap between an answer and its record", doubles.Load())
	})
	engines.Sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
		w := newAfterlife(t, world.Options{Engine: e, Plan: p})
		mend := w.sicken()
		id := w.Send(w.Activity("Create"), sickInbox, "https://fine.example/inbox")
		w.pass(15 * time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Dead, "https://fine.example/inbox": activity.Delivered})
		if n := len(w.notices(queue.Dead)); n == 0 || n > 2 {
			t.Errorf("%d messages in the queue of dead letters", n)
		}
		mend()
		w.insist(p, func() error {
			_, _, err := w.reviver.Revive(context.Background(), deadletter.Filter{Activity: id}, "", 10)
			return err
		})
		w.pass(15 * time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Delivered})
		if ls := w.dead(deadletter.Filter{}); len(ls) != 0 {
			t.Errorf("dead letters left: %+v", ls)
		}
		doubles.Add(int64(w.Doubles()))
	})
}

func TestAFailedBurialLeavesTheLedgerAlone(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	w.sicken()
	w.writer.Queues = func(n queue.Name) queue.Sender { return box{n, map[queue.Name][]queue.Message{}, "sick.example"} }
	id := w.Send(w.Activity("Create"), sickInbox)
	w.pass(time.Minute)
	if s := w.States(id)[sickInbox].State; s == activity.Dead {
		t.Errorf("is %s, although nobody was told", s)
	}
	if log := w.Log.String(); !strings.Contains(log, fmt.Sprint(errFull)) {
		t.Errorf("the log does not say why:\n%s", log)
	}
}
