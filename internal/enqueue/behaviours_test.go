package enqueue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// capable is a queue that reports the capabilities that a test wants.
type capable struct {
	queue.Sender
	caps queue.Capabilities
	last queue.Message
}

func (c *capable) Capabilities() queue.Capabilities { return c.caps }

func (c *capable) Send(_ context.Context, m queue.Message) error {
	c.last = m
	return nil
}

// hasMarker reports whether the table has the marker of a deduplication key.
func (w *world) hasMarker(queueName queue.Name, k string) bool {
	w.Helper()
	pk := "M#" + dedup.DefaultPrefix + dedup.Name{Queue: queueName, Operation: "activities", Key: k}.Hash()
	got, err := w.engine.Table().Get(w.Context(), table.Key{PK: pk, SK: "MARK"})
	if err != nil {
		w.Fatal(err)
	}
	return len(got) == 1
}

func TestTheQueueSaysWhatItCanDoAndEveryPathUsesIt(t *testing.T) {
	for name, c := range map[string]struct {
		caps         queue.Capabilities
		change       []func(*enqueue.Request)
		marker       bool
		delay        time.Duration // handed to the queue
		later        bool          // to the agenda
		group, dedup bool
	}{
		"plain":                     {caps: queue.Capabilities{MaxDelay: queue.MaxDelay}},
		"key":                       {caps: queue.Capabilities{MaxDelay: queue.MaxDelay}, change: []func(*enqueue.Request){key("k")}, marker: true},
		"delay":                     {caps: queue.Capabilities{MaxDelay: queue.MaxDelay}, change: []func(*enqueue.Request){delay(time.Minute)}, delay: time.Minute},
		"a delay that is too long":  {caps: queue.Capabilities{MaxDelay: time.Second}, change: []func(*enqueue.Request){delay(time.Minute)}, later: true},
		"a queue without any delay": {change: []func(*enqueue.Request){delay(time.Second)}, later: true},
		"native":                    {caps: queue.Capabilities{NativeDeduplication: true}, change: []func(*enqueue.Request){key("k")}, group: true, dedup: true},
		"native, longer window":     {caps: queue.Capabilities{NativeDeduplication: true}, change: []func(*enqueue.Request){key("k"), ttl(time.Hour)}, marker: true, group: true, dedup: true},
		"native, delayed":           {caps: queue.Capabilities{NativeDeduplication: true}, change: []func(*enqueue.Request){key("k"), delay(time.Second)}, marker: true, later: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := &capable{caps: c.caps}
			w := newWorld(t, faults.NewPlan(), func(s *settings) {
				s.enqueue.Queues = map[queue.Name]queue.Sender{queue.Normal: q}
			})
			id := w.must(request(c.change...), enqueue.Queued)
			if got := w.hasMarker(queue.Normal, "k"); got != c.marker {
				t.Errorf("marker: %t, want %t", got, c.marker)
			}
			if later := q.last.Body == ""; later != c.later {
				t.Errorf("left for later: %t, want %t", later, c.later)
			}
			if c.later {
				return
			}
			if q.last.Delay != c.delay {
				t.Errorf("delay %s, want %s", q.last.Delay, c.delay)
			}
			if got := q.last.OrderingKey != ""; got != c.group {
				t.Errorf("ordering key %q", q.last.OrderingKey)
			}
			r, err := w.truth.Activity(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: string(id) + "/" + r.Fingerprint}[c.dedup]; q.last.DeduplicationKey != want {
				t.Errorf("deduplication key %q, want %q", q.last.DeduplicationKey, want)
			}
		})
	}
}

func TestWithoutAKeyNothingChanges(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	first := w.must(request(), enqueue.Queued)
	second := w.must(request(), enqueue.Queued)
	if first == second {
		t.Error("the same activity twice is one")
	}
	if got := sideBySide(w.calls(0)); !slices.Equal(got, []string{"table.Put", "table.PutAll", "normal.Send", "table.Put", "table.PutAll", "normal.Send"}) {
		t.Errorf("calls %v, want one list, one record and one send each", got)
	}
	if len(w.arrived()) != 2 {
		t.Error("not both arrived")
	}
}

// onNativeQueues runs a test on the ordered queue, and on the queue of a priority that is a
// FIFO queue. A request goes there with the change on.
func onNativeQueues(t *testing.T, run func(t *testing.T, e engines.Engine, on func(*enqueue.Request), name queue.Name)) {
	t.Run("ordered", func(t *testing.T) { run(t, engines.Embedded(), ordered("o"), queue.Ordered) })
	t.Run("normal", func(t *testing.T) { run(t, engines.EmbeddedFIFO(), func(*enqueue.Request) {}, queue.Normal) })
}

// TestADroppedDuplicateLeavesNoRecordOfItsOwn: neither an id that a caller got nor anything else
// stays queued in the table.
func TestADroppedDuplicateLeavesNoRecordOfItsOwn(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), name queue.Name) {
		w := newWorldOn(t, e, faults.NewPlan())
		w.clock = noon.Add(4 * time.Minute)
		first := w.must(request(on, key("k")), enqueue.Queued)
		for range 4 { // into the next period
			w.wait(time.Minute)
			w.must(request(on, key("k")), enqueue.Duplicate)
		}
		if got := w.only(); got != first {
			t.Errorf("%s arrived, want %s", got, first)
		}
		own := activity.DerivedID(noon.Add(5*time.Minute), dedup.Name{Queue: name, Operation: "activities", Key: "k"}.Hash())
		if r, err := w.truth.Activity(t.Context(), own); own == first || err == nil && r.ID != first {
			t.Errorf("the duplicate has the record %+v", r)
		}
	})
}

func TestANativeQueueGetsTheKeyAndNoMarkerIsTouched(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), name queue.Name) {
		w := newWorldOn(t, e, faults.NewPlan())
		first := w.must(request(on, key("k")), enqueue.Queued)
		w.wait(time.Minute)
		if again := w.must(request(on, key("k")), enqueue.Duplicate); again != first {
			t.Errorf("duplicate of %s, want %s", again, first)
		}
		if w.hasMarker(name, "k") {
			t.Error("there is a marker")
		}
		if a := w.one(); a.Message.Activity.ID != first || a.Raw.DeduplicationKey == "" || a.Raw.OrderingKey == "" {
			t.Errorf("arrived %+v", a.Raw)
		}
		if n := w.counted.count(dedup.Duplicates); n != 1 {
			t.Errorf("%d duplicates counted", n)
		}
	})
}

func TestTheNativeWindowIsFiveMinutesWhereverItsPeriodTurns(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		for _, into := range []time.Duration{0, time.Second, 2 * time.Minute, 5*time.Minute - time.Second, 5*time.Minute - time.Millisecond} {
			t.Run(into.String(), func(t *testing.T) {
				w := newWorldOn(t, e, faults.NewPlan())
				w.clock = noon.Add(into)
				first := w.must(request(on, key("k")), enqueue.Queued)
				w.wait(5*time.Minute - time.Millisecond)
				if again := w.must(request(on, key("k")), enqueue.Duplicate); again != first {
					t.Errorf("inside the window: %s, want %s", again, first)
				}
				w.wait(2 * time.Millisecond)
				second := w.must(request(on, key("k")), enqueue.Queued)
				if second == first {
					t.Error("after the window it is still the same activity")
				}
				if got := ids(w.arrived()); got[first] != 1 || got[second] != 1 {
					t.Errorf("arrived %v", got)
				}
			})
		}
	})
}

// TestAKeyThatWasSentAgainLateIsNotSwallowed: the queue counts its window from
// the time a message got onto it. The first call dies before its send, and a
// retry sends late in the window. The key's next activity comes while the queue
// still remembers that retry.
func TestAKeyThatWasSentAgainLateIsNotSwallowed(t *testing.T) {
	r := request(ordered("o"), key("k"))
	w := newWorld(t, faults.NewPlan(faults.Fault{Call: sendOf(t, r), Kind: faults.DieBefore}))
	if _, err := w.enqueue(r); !errors.Is(err, faults.ErrDead) {
		t.Fatalf("the call did not die: %v", err)
	}
	w.plan.Revive()
	w.wait(4 * time.Minute)
	first := w.must(r, enqueue.Duplicate)
	w.wait(2 * time.Minute)
	second := w.must(r, enqueue.Queued)
	if got := ids(w.arrived()); got[first] != 1 || got[second] != 1 {
		t.Errorf("arrived %v, want %s and %s", got, first, second)
	}
}

func TestAKeyIsSkippedInsideItsWindowAndWorksAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*enqueue.Request)
		window time.Duration
	}{
		"by default":          {nil, time.Hour},
		"by the request":      {[]func(*enqueue.Request){ttl(10 * time.Minute)}, 10 * time.Minute},
		"from its due time":   {[]func(*enqueue.Request){delay(10 * time.Minute)}, 70 * time.Minute},
		"from long after now": {[]func(*enqueue.Request){delay(24 * time.Hour)}, 25 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			r := request(append(c.change, key("k"))...)
			first := w.must(r, enqueue.Queued)
			w.wait(c.window - time.Second)
			if again := w.must(r, enqueue.Duplicate); again != first {
				t.Errorf("duplicate of %s, want %s", again, first)
			}
			// The expired item is still in the table: only its expiry time shows
			// that it no longer counts.
			w.wait(time.Second)
			if second := w.must(r, enqueue.Queued); second == first {
				t.Error("after the window it is still the same activity")
			}
		})
	}
}

func TestTheDefaultWindowIsConfigurable(t *testing.T) {
	w := newWorld(t, faults.NewPlan(), func(s *settings) { s.dedup.TTL = time.Minute })
	w.must(request(key("k")), enqueue.Queued)
	w.wait(59 * time.Second)
	w.must(request(key("k")), enqueue.Duplicate)
	w.wait(time.Second)
	w.must(request(key("k")), enqueue.Queued)
}

func TestFallbackOpenProceedsAndSaysSoAtDebug(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, faults.NewPlan(faults.Fault{Call: 1, Kind: faults.FailBefore}), func(s *settings) {
		s.dedup.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	id := w.must(request(key("k")), enqueue.Queued)
	if w.only() != id {
		t.Error("another activity arrived")
	}
	if s := log.String(); !strings.Contains(s, "level=DEBUG") || strings.Contains(s, "level=WARN") || strings.Contains(s, "level=ERROR") {
		t.Errorf("logged %q", s)
	}
	if n := w.counted.count(dedup.Fallbacks); n != 1 {
		t.Errorf("%d fallbacks counted", n)
	}
}

func TestFallbackClosedRefusesBeforeAnySideEffect(t *testing.T) {
	w := newWorld(t, faults.NewPlan(faults.Fault{Call: 1, Kind: faults.FailBefore}), func(s *settings) { s.dedup.Fallback = dedup.Closed })
	if _, err := w.enqueue(request(key("k"))); !errors.Is(err, dedup.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if calls := w.calls(0); len(calls) != 1 {
		t.Errorf("calls %v", calls)
	}
	if n := len(w.arrived()); n != 0 {
		t.Errorf("%d arrived", n)
	}
}

func TestMarkersHaveTheirOwnConfigurablePrefix(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(key("k")), enqueue.Queued)
	other := newWorld(t, faults.NewPlan(), func(s *settings) { s.dedup.Prefix = "other" })
	other.engine = w.engine
	other.restart(faults.NewPlan())
	other.must(request(key("k")), enqueue.Queued)
	if !w.hasMarker(queue.Normal, "k") {
		t.Error("no marker under the default prefix")
	}
}

func TestEverythingIsValidatedBeforeAKeyIsReserved(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	bad := request(key("k"), func(r *enqueue.Request) { r.Recipients[1].Inbox = "ftp://b.example" })
	faultsOf(t, second(w.enqueue(bad)))
	batch := enqueue.BatchRequest{DeduplicationKey: ptr("k"), Requests: []enqueue.Request{request(), bad}}
	_, err := w.service.EnqueueBatch(t.Context(), batch)
	faultsOf(t, err)
	if calls := w.calls(0); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
	w.must(request(key("k")), enqueue.Queued)
}

func second[A any](_ A, err error) error { return err }

func TestABatchHasOneKeyAndIsAllOrNothing(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	batch := enqueue.BatchRequest{DeduplicationKey: ptr("k"), Requests: []enqueue.Request{
		request(), request(body(`{"actor":"b"}`)), request(body(`{"actor":"c"}`)),
	}}
	first, err := w.service.EnqueueBatch(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(w.calls(0), " "), "normal.Send"); n != 1 {
		t.Errorf("%d sends: %v", n, w.calls(0))
	}
	again, err := w.service.EnqueueBatch(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[activity.ID]bool{}
	for i := range first {
		if first[i].Status != enqueue.Queued || again[i].Status != enqueue.Duplicate || first[i].ID != again[i].ID {
			t.Errorf("activity %d: %+v, then %+v", i, first[i], again[i])
		}
		seen[first[i].ID] = true
	}
	if got := ids(w.arrived()); len(got) != 3 || len(seen) != 3 {
		t.Errorf("arrived %v of %v", got, seen)
	}
	// The key counts per operation: a single call with the batch's key is another
	// activity.
	w.must(request(key("k")), enqueue.Queued)

	batch.Requests[1].DeduplicationKey = ptr("own")
	_, err = w.service.EnqueueBatch(t.Context(), batch)
	if _, ok := faultsOf(t, err)["/activities/1/deduplicationKey"]; !ok {
		t.Errorf("a key of a part: %v", err)
	}
}
