package enqueue_test

import (
	"context"
	"errors"
	mrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// blip is a table that is out of reach while a call looks its key up and writes its records, and
// is back for its last write.
type blip struct{ on bool }

func (b *blip) Intercept(_ context.Context, c faults.Call, act func(faults.Fault) error) error {
	if b.on && !strings.HasPrefix(c.About, "T#") && !strings.HasPrefix(c.About, "B#") {
		return errDown
	}
	return act(faults.Fault{})
}

func (w *world) blipping(b *blip) *enqueue.Service {
	s := store.New(faults.Table(b, "table", w.engine.Table()), w.now)
	entropy := mrand.NewChaCha8([32]byte{99})
	q := map[queue.Name]queue.Sender{}
	for _, n := range sending {
		q[n] = w.engine.Queue(n)
	}
	return enqueue.New(enqueue.Options{
		Protocols: protocols, Queues: q, Ledger: s, Payloads: s, Agenda: s, Keys: keys{keyID: true}, Meter: &counted{},
		Markers: dedup.New(s, dedup.Options{Now: w.now, Entropy: entropy, Log: discard, Fallback: dedup.Open}),
		Now:     w.now, Entropy: entropy, Log: discard,
	})
}

const other = `{"type":"Delete","actor":"https://social.example/users/frida","object":"https://social.example/notes/1"}`

// TestABlipOfTheTableReplacesNothingOfAnotherRequest: the first request is accepted with the table
// up; the second one under its key comes while no record can be read for a moment.
func TestABlipOfTheTableReplacesNothingOfAnotherRequest(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		for name, c := range map[string]struct {
			later time.Duration
			limit int
		}{"agenda": {time.Hour, 0}, "claim check": {0, 250}} {
			t.Run(name, func(t *testing.T) {
				w := newWorldOn(t, e, faults.NewPlan())
				b := &blip{}
				s := w.blipping(b)
				if c.limit > 0 {
					enqueue.LimitMessages(s, c.limit)
				}
				for i, r := range []enqueue.Request{request(on, key("k"), delay(c.later)), request(on, key("k"), delay(c.later), body(other))} {
					b.on = i == 1
					res, err := s.Enqueue(t.Context(), r)
					if err != nil || res.Status != enqueue.Queued {
						t.Fatalf("the answer is %+v, error %v; want queued", res, err)
					}
				}
				b.on = false
				w.wait(2 * time.Hour)
				if _, err := w.release.Release(t.Context(), w.clock); err != nil {
					t.Fatal(err)
				}
				got := map[string]int{}
				for _, a := range w.arrived() {
					got[a.Message.Activity.Type]++
				}
				if got["Create"] != 1 || got["Delete"] != 1 {
					t.Errorf("both were accepted; arrived: %v", got)
				}
			})
		}
	})
}

// TestARetryFindsItsOwnActivityAfterThePointerIsReplaced: X is accepted at the end of a period while
// the table is down; Y, another request, at the beginning of the next one, with the table. A worker
// records X in place of the pointer to Y. Then Y's caller, whose answer was lost, tries again.
func TestARetryFindsItsOwnActivityAfterThePointerIsReplaced(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		w := newWorldOn(t, e, faults.NewPlan())
		w.clock = noon.Add(4*time.Minute + 50*time.Second)
		table := &outage{down: true}
		s, _ := w.without(table, dedup.Open)
		x, err := s.Enqueue(t.Context(), request(on, key("k")))
		if err != nil {
			t.Fatal(err)
		}
		at := w.clock
		table.down = false
		w.wait(15 * time.Second)
		y, err := s.Enqueue(t.Context(), request(on, key("k"), body(other)))
		if err != nil || y.Status != enqueue.Queued || y.ID == x.ID {
			t.Fatalf("the answer is %+v, error %v; want queued, and another activity than %+v", y, err, x)
		}
		for _, a := range w.arrived() {
			if u := a.Message.Unrecorded; u != nil {
				to := 2
				r := ledger.Record{ID: a.Message.Activity.ID, Protocol: a.Message.Activity.Protocol, Type: a.Message.Activity.Type, CreatedAt: at, Recipients: to, Targets: to, Chunk: ledger.ChunkSize, Fingerprint: u.Fingerprint, Forget: u.Forget}
				if err := w.truth.CreateActivity(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.wait(5 * time.Second)
		again, err := s.Enqueue(t.Context(), request(on, key("k"), body(other)))
		if err != nil || again.ID != y.ID || again.Status != enqueue.Duplicate {
			t.Errorf("the retry of %v: %v, %v", y, again, err)
		}
	})
}

// TestCancelDoesNotHitAnotherRequest: X's caller cancels X, by the id that it was given, before a
// worker has recorded X.
func TestCancelDoesNotHitAnotherRequest(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		w := newWorldOn(t, e, faults.NewPlan())
		w.clock = noon.Add(4*time.Minute + 50*time.Second)
		table := &outage{down: true}
		s, _ := w.without(table, dedup.Open)
		x, err := s.Enqueue(t.Context(), request(on, key("k")))
		if err != nil {
			t.Fatal(err)
		}
		table.down = false
		w.wait(15 * time.Second)
		y, err := s.Enqueue(t.Context(), request(on, key("k"), body(other)))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.truth.CancelActivity(t.Context(), x.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("to cancel %s: %v", x.ID, err)
		}
		r, err := w.truth.Activity(t.Context(), y.ID)
		if err != nil || r.Cancelled {
			t.Errorf("to cancel %s has cancelled %s: %v", x.ID, r.ID, err)
		}
	})
}
