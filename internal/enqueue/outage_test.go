package enqueue_test

import (
	"context"
	"errors"
	mrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// outage is a table on which every call fails.
type outage struct{ down bool }

var errDown = errors.New("the table is down")

func (o *outage) Intercept(_ context.Context, _ faults.Call, act func(faults.Fault) error) error {
	if o.down {
		return errDown
	}
	return act(faults.Fault{})
}

// Known implements enqueue.Keys on that table.
func (o *outage) Known(ctx context.Context, _ string) (bool, error) {
	return !o.down, o.Intercept(ctx, faults.Call{}, func(faults.Fault) error { return nil })
}

// without returns a service whose table is down, and the service's meter.
func (w *world) without(o *outage, f dedup.Fallback) (*enqueue.Service, *counted) {
	s := store.New(faults.Table(o, "table", w.engine.Table()), w.now)
	entropy := mrand.NewChaCha8([32]byte{99})
	q := map[queue.Name]queue.Sender{}
	for _, n := range sending {
		q[n] = w.engine.Queue(n)
	}
	m := &counted{}
	return enqueue.New(enqueue.Options{
		Protocols: protocol.Set{protocols[0], withRecorder(protocols[1], &witness{err: errDown})},
		Queues:    q, Ledger: s, Payloads: s, Agenda: s, Keys: o, Meter: m,
		Markers: dedup.New(s, dedup.Options{Now: w.now, Entropy: entropy, Log: discard, Fallback: f, Counted: m.Counted}),
		Now:     w.now, Entropy: entropy, Log: discard,
	}), m
}

// TestTheOpenFallbackNeedsNoTable: every call is accepted, and its message carries what the table
// would have had.
func TestTheOpenFallbackNeedsNoTable(t *testing.T) {
	for name, c := range map[string]struct {
		r     enqueue.Request
		later bool // the queue cannot hold the message back for so long
	}{
		"keyed":                           {request(key("k")), false},
		"unkeyed":                         {request(), false},
		"delayed by the queue":            {request(key("k"), delay(time.Minute)), false},
		"delayed beyond the queue":        {request(key("k"), delay(time.Hour)), true},
		"ordered":                         {request(ordered("o")), false},
		"ordered, keyed":                  {request(ordered("o"), key("k")), false},
		"ordered, longer window":          {request(ordered("o"), key("k"), ttl(time.Hour)), false},
		"ordered, delayed":                {request(ordered("o"), delay(time.Minute)), true},
		"many recipients":                 {request(key("k"), func(r *enqueue.Request) { r.Recipients = inboxes(5000, 0) }), false},
		"a protocol that records as well": {sipher(key("k")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			s, m := w.without(&outage{down: true}, dedup.Open)
			res, err := s.Enqueue(t.Context(), c.r)
			if err != nil || res.Status != enqueue.Queued {
				t.Fatalf("the answer is %+v, error %v; want queued", res, err)
			}
			w.wait(20 * time.Minute)
			got := w.one().Message
			if got.Activity.ID != res.ID || got.Unrecorded == nil || !got.Unrecorded.Forget.After(w.clock) {
				t.Errorf("%+v carries %+v", got.Activity, got.Unrecorded)
			}
			if c.later != got.NotBefore.After(noon) {
				t.Errorf("not before %s", got.NotBefore)
			}
			fallbacks := 0
			if c.r.DeduplicationKey != nil {
				fallbacks = 1
			}
			if got := m.others[dedup.Fallbacks]; got != fallbacks {
				t.Errorf("counted %d fallbacks, want %d", got, fallbacks)
			}
			if got := m.others[enqueue.Unrecorded]; got > 1 {
				t.Errorf("counted %d unrecorded, want at most 1", got)
			}
		})
	}
}

func TestABatchNeedsNoTable(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	s, _ := w.without(&outage{down: true}, dedup.Open)
	res, err := s.EnqueueBatch(t.Context(), enqueue.BatchRequest{DeduplicationKey: ptr("k"), Requests: []enqueue.Request{request(), request(body(`{"actor":"x"}`))}})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range w.arrived() {
		if a.Message.Activity.ID != res[i].ID || a.Message.Unrecorded == nil {
			t.Errorf("%+v carries %+v", a.Message.Activity, a.Message.Unrecorded)
		}
	}
}

// TestWithTheTableAMessageCarriesNothingMore: Unrecorded and NotBefore stay
// empty.
func TestWithTheTableAMessageCarriesNothingMore(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	for _, r := range []enqueue.Request{request(key("k")), request(ordered("o"), key("k")), request(delay(time.Hour))} {
		w.must(r, enqueue.Queued)
	}
	w.comeToRest(time.Hour)
	for _, a := range w.arrived() {
		if m := (message.Message{Unrecorded: a.Message.Unrecorded, NotBefore: a.Message.NotBefore}); m.Unrecorded != nil || !m.NotBefore.IsZero() {
			t.Errorf("%s carries %+v", a.Message.Activity.ID, m)
		}
	}
}

func TestTheClosedFallbackNeedsTheTable(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	s, m := w.without(&outage{down: true}, dedup.Closed)
	for _, r := range []enqueue.Request{request(key("k")), request(), request(ordered("o"), key("k")), request(delay(time.Hour))} {
		if res, err := s.Enqueue(t.Context(), r); err == nil {
			t.Errorf("accepted as %+v", res)
		}
	}
	if got := w.arrived(); len(got) > 0 || m.recipients > 0 {
		t.Errorf("%d arrived, %d recipients accepted", len(got), m.recipients)
	}
}

// TestDuplicatesAreCounted, on either kind of queue.
func TestDuplicatesAreCounted(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	s, m := w.without(&outage{}, dedup.Open)
	for _, r := range []enqueue.Request{request(key("k")), request(key("k"), ordered("o"))} {
		for range 3 {
			if _, err := s.Enqueue(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := m.others[dedup.Duplicates]; n != 4 {
		t.Errorf("counted %v, want 4 duplicates", m.others)
	}
}

// TestAFIFOQueueDropsDuplicatesWhileTheTableIsDown: with the open fallback nothing else could.
func TestAFIFOQueueDropsDuplicatesWhileTheTableIsDown(t *testing.T) {
	for typ, want := range map[queue.Type]int{queue.Standard: 3, queue.FIFO: 1} {
		e := engines.Embedded()
		e.Type = typ
		w := newWorldOn(t, e, faults.NewPlan())
		s, _ := w.without(&outage{down: true}, dedup.Open)
		for range 3 {
			if _, err := s.Enqueue(t.Context(), request(key("k"))); err != nil {
				t.Fatal(err)
			}
			w.wait(30 * time.Second)
		}
		if n := len(w.arrived()); n != want {
			t.Errorf("%s: %d messages arrived, want %d", typ, n, want)
		}
	}
}

// TestAnotherRequestUnderAKeyIsNotDroppedWhileTheTableIsDown: without the table nobody knows that
// the key was used for something else (422), so both calls are accepted, as without a key. The FIFO
// queue dropped the second as a duplicate of the first.
func TestAnotherRequestUnderAKeyIsNotDroppedWhileTheTableIsDown(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		for name, back := range map[string]bool{"down for both": false, "down for the first only": true} {
			t.Run(name, func(t *testing.T) {
				w := newWorldOn(t, e, faults.NewPlan())
				table := &outage{down: true}
				s, _ := w.without(table, dedup.Open)
				other := body(`{"type":"Delete","actor":"https://social.example/users/frida","object":"https://social.example/notes/1"}`)
				for _, r := range []enqueue.Request{request(on, key("k")), request(on, key("k"), other)} {
					for range 2 { // the same request again is still dropped
						if _, err := s.Enqueue(t.Context(), r); err != nil {
							t.Fatal(err)
						}
					}
					table.down = !back
				}
				var types []string
				for _, a := range w.arrived() {
					types = append(types, a.Message.Activity.Type)
				}
				slices.Sort(types)
				if want := []string{"Create", "Delete"}; !slices.Equal(types, want) {
					t.Errorf("%v arrived, want %v", types, want)
				}
			})
		}
	})
}
