package enqueue_test

import (
	"context"
	"errors"
	mrand "math/rand/v2"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/faults"
)

// stalled is a queue that runs a function in place of sending, and then refuses.
type stalled struct {
	queue.Sender
	meanwhile func()
}

func (q stalled) Send(context.Context, queue.Message) error {
	q.meanwhile()
	return queue.ErrNotSent
}

// noReplacement is a table that fails to replace a marker, once.
type noReplacement struct {
	dedup.Store
	failed *bool
}

func (s noReplacement) ReplaceMarker(ctx context.Context, key, token string, m dedup.Marker) error {
	if !*s.failed {
		*s.failed = true
		return errors.New("throttled")
	}
	return s.Store.ReplaceMarker(ctx, key, token, m)
}

// caller is a service in a process of its own, with the open fallback. The
// service sends to q, or to the engine if q is nil.
func (w *world) caller(markers dedup.Store, l enqueue.Ledger, q queue.Sender, seed byte) *enqueue.Service {
	entropy := mrand.NewChaCha8([32]byte{seed})
	queues := map[queue.Name]queue.Sender{}
	for _, n := range sending {
		if queues[n] = q; q == nil {
			queues[n] = w.engine.Queue(n)
		}
	}
	return enqueue.New(enqueue.Options{
		Protocols: protocols, Queues: queues, Ledger: l, Payloads: w.store, Agenda: w.store, Keys: keys{keyID: true},
		Markers: dedup.New(markers, dedup.Options{Now: w.now, Entropy: entropy, Log: discard}),
		Now:     w.now, Entropy: entropy, Log: discard,
	})
}

// TestAHolderWhoseLeaseIsOverUndoesNothing: caller A stalls past its lease. B
// takes over, but its one write of the marker fails, so B goes on (open fallback)
// under A's id. Then A fails for good and gives its lease back. The activity that
// B reported as queued must keep its record, and the key must go on standing for
// it.
func TestAHolderWhoseLeaseIsOverUndoesNothing(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	b := w.caller(noReplacement{w.store, new(bool)}, w.store, nil, 77)
	var got enqueue.Result
	a := w.caller(w.store, w.store, stalled{w.engine.Queue(queue.Normal), func() {
		w.wait(31 * time.Second)
		var err error
		if got, err = b.Enqueue(t.Context(), request(key("k"))); err != nil {
			t.Fatal(err)
		}
	}}, 78)
	if _, err := a.Enqueue(t.Context(), request(key("k"))); err == nil {
		t.Fatal("A did not fail")
	}
	if r, err := w.truth.Activity(t.Context(), got.ID); err != nil {
		t.Errorf("B was told that %s is queued, and it has no record: %+v %v", got.ID, r, err)
	}
	// B's confirmation found A's marker, which stands for the same activity.
	if again := w.must(request(key("k")), enqueue.Duplicate); again != got.ID {
		t.Errorf("the same call again stands for %s, want %s", again, got.ID)
	}
	if w.only() != got.ID {
		t.Error("another activity is on the queue")
	}
}

// TestALeaseIsNotGivenBackLate: another call may have found the marker
// meanwhile, so the marker stays and may be taken over with its id.
func TestALeaseIsNotGivenBackLate(t *testing.T) {
	for name, wait := range map[string]time.Duration{"in its lease": 20 * time.Second, "shortly before its end": 29 * time.Second, "after it": time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			dropped := recording{Ledger: w.store}
			a := w.caller(w.store, &dropped, stalled{w.engine.Queue(queue.Normal), func() { w.wait(wait) }}, 78)
			if _, err := a.Enqueue(t.Context(), request(key("k"))); err == nil {
				t.Fatal("A did not fail")
			}
			late := wait > 28*time.Second
			if kept := w.hasMarker(queue.Normal, "k"); kept != late || (len(dropped.dropped) == 0) != late {
				t.Errorf("marker kept: %t, %v dropped", kept, dropped.dropped)
			}
			w.wait(time.Minute)
			w.must(request(key("k")), enqueue.Queued)
			w.only()
		})
	}
}

// deadlines records how much time each call's context leaves.
type deadlines struct {
	enqueue.Ledger
	left *[]time.Duration
}

func (l deadlines) note(ctx context.Context) {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(time.Hour)
	}
	*l.left = append(*l.left, time.Until(end))
}

func (l deadlines) CreateActivity(ctx context.Context, r ledger.Record) error {
	l.note(ctx)
	return l.Ledger.CreateActivity(ctx, r)
}

func (l deadlines) CreateOrdered(ctx context.Context, r ledger.Record, prev activity.ID, since time.Time, contested bool) (ledger.Record, bool, error) {
	l.note(ctx)
	return l.Ledger.CreateOrdered(ctx, r, prev, since, contested)
}

// TestARequestEndsBeforeItsLease: whatever deadline its caller set.
func TestARequestEndsBeforeItsLease(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	var left []time.Duration
	s := w.caller(w.store, deadlines{w.store, &left}, nil, 79)
	soon, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for _, r := range []enqueue.Request{request(), request(key("k")), request(key("k"), ordered("o"))} {
		for _, ctx := range []context.Context{t.Context(), soon} {
			if r.DeduplicationKey != nil {
				r.DeduplicationKey = ptr(*r.DeduplicationKey + "!")
			}
			if _, err := s.Enqueue(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, d := range left {
		if most := []time.Duration{28 * time.Second, 3 * time.Second}[i%2]; d > most {
			t.Errorf("call %d has %s left, at most %s", i, d, most)
		}
	}
	if len(left) != 6 {
		t.Errorf("%d calls", len(left))
	}
}
