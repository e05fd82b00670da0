package enqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/faults"
)

func TestMarkersStayAfterSuccess(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(key("k")), enqueue.Queued)
	if !w.hasMarker(queue.Normal, "k") {
		t.Error("the marker is gone")
	}
}

func TestDefiniteFailureReleasesTheMarker(t *testing.T) {
	for name, r := range map[string]enqueue.Request{
		"standard queue":         request(key("k")),
		"ordered, longer window": request(key("k"), ordered("o"), ttl(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan(faults.Fault{Call: sendOf(t, r), Kind: faults.Refuse}))
			_, err := w.enqueue(r)
			var send *enqueue.SendError
			if !errors.As(err, &send) || send.MaybeSent || !queue.NotSent(err) {
				t.Fatalf("got %v", err)
			}
			if w.hasMarker(queue.Normal, "k") || w.hasMarker(queue.Ordered, "k") {
				t.Error("the marker is still there")
			}
			// The retry is accepted at once. On the ordered queue the first
			// call's record is still there.
			w.must(r, map[bool]enqueue.Status{true: enqueue.Duplicate, false: enqueue.Queued}[r.OrderingKey != ""])
			w.only()
		})
	}
}

func TestDefiniteFailureDropsTheRecord(t *testing.T) {
	for name, r := range map[string]enqueue.Request{
		"without a key":         request(),
		"with a key":            request(key("k")),
		"ordered without a key": request(ordered("o")),
	} {
		t.Run(name, func(t *testing.T) {
			var ledger recording
			w := newWorld(t, faults.NewPlan(faults.Fault{Call: sendOf(t, r), Kind: faults.Refuse}))
			w.record(&ledger)
			if _, err := w.enqueue(r); !queue.NotSent(err) {
				t.Fatalf("got %v", err)
			}
			if len(ledger.created) != 1 || !slices.Equal(ledger.created, ledger.dropped) {
				t.Errorf("created %v, dropped %v", ledger.created, ledger.dropped)
			}
		})
	}
}

// TestARecordThatAnotherCallMayHaveSentStays: on the ordered queue two calls
// with one key share a record, so the failure of one call must not remove the
// other's record.
func TestARecordThatAnotherCallMayHaveSentStays(t *testing.T) {
	for _, r := range []enqueue.Request{request(key("k"), ordered("o")), request(key("k"), ordered("o"), ttl(time.Hour))} {
		testRecordStays(t, r)
	}
}

func testRecordStays(t *testing.T, r enqueue.Request) {
	t.Helper()
	var ledger recording
	w := newWorld(t, faults.NewPlan(faults.Fault{Call: sendOf(t, r), Kind: faults.Refuse}))
	w.record(&ledger)
	if _, err := w.enqueue(r); !queue.NotSent(err) {
		t.Fatalf("got %v", err)
	}
	if len(ledger.dropped) > 0 {
		t.Errorf("dropped %v", ledger.dropped)
	}
	id := w.must(r, enqueue.Duplicate)
	if w.only() != id {
		t.Error("the retry was swallowed")
	}
}

func TestAmbiguousFailureKeepsMarkerAndRecord(t *testing.T) {
	for name, r := range map[string]enqueue.Request{
		"standard queue":         request(key("k")),
		"ordered, longer window": request(key("k"), ordered("o"), ttl(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			var ledger recording
			w := newWorld(t, faults.NewPlan(faults.Fault{Call: sendOf(t, r), Kind: faults.ActThenLose}))
			w.record(&ledger)
			_, err := w.enqueue(r)
			var send *enqueue.SendError
			if !errors.As(err, &send) || !send.MaybeSent {
				t.Fatalf("got %v", err)
			}
			if !w.hasMarker(queue.Normal, "k") && !w.hasMarker(queue.Ordered, "k") {
				t.Error("the marker is gone")
			}
			if len(ledger.dropped) > 0 {
				t.Error("the record is gone")
			}
			var held *dedup.HeldError
			if _, err := w.enqueue(r); !errors.As(err, &held) || held.RetryAfter != dedup.LeaseTime {
				t.Errorf("inside the lease: %v", err)
			}
			w.wait(held.RetryAfter)
			id := w.must(r, enqueue.Queued)
			if w.only() != id || id != held.ID {
				t.Error("another activity")
			}
		})
	}
}

func TestAFailedReleaseDoesNotHideTheFirstError(t *testing.T) {
	send := sendOf(t, request(key("k")))
	w := newWorld(t, faults.NewPlan(faults.Fault{Call: send, Kind: faults.Refuse}, faults.Fault{Call: send + 1, Kind: faults.FailBefore}))
	_, err := w.enqueue(request(key("k")))
	if !queue.NotSent(err) || !strings.Contains(err.Error(), "normal.Send") {
		t.Errorf("got %v, want the send's error", err)
	}
	if w.plan.Fired() != 2 {
		t.Error("the release did not fail")
	}
}

// TestOnlyItsOwnMarkerIsReleased: the first holder is so slow that its lease
// lapses, another call takes over and sends, and then the first one's send
// fails.
func TestOnlyItsOwnMarkerIsReleased(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	var slow, quick activity.ID
	w.intercept(func() error {
		w.wait(time.Minute)
		quick = w.must(request(key("k")), enqueue.Queued)
		return queue.ErrNotSent
	})
	_, err := w.enqueue(request(key("k")))
	if !queue.NotSent(err) {
		t.Fatalf("got %v", err)
	}
	slow = w.must(request(key("k")), enqueue.Duplicate)
	if slow != quick || w.only() != quick {
		t.Errorf("duplicate of %s, want %s", slow, quick)
	}
	if _, err := w.truth.Activity(t.Context(), quick); err != nil {
		t.Errorf("the record: %v", err)
	}
}

// sendOf returns the number of the call by which r is sent.
func sendOf(t *testing.T, r enqueue.Request) int {
	t.Helper()
	w := newWorld(t, faults.NewPlan())
	w.must(r, enqueue.Queued)
	for _, c := range w.plan.Calls() {
		if c.Op == "Send" {
			return c.N
		}
	}
	t.Fatal("it is not sent")
	return 0
}

// recording lists the records created and dropped.
type recording struct {
	enqueue.Ledger
	created, dropped []activity.ID
}

func (w *world) record(r *recording) {
	r.Ledger = w.store
	w.change = append(w.change, func(s *settings) { s.ledger = r })
	w.restart(w.plan)
	r.Ledger = w.store
}

func (r *recording) CreateActivity(ctx context.Context, rec ledger.Record) error {
	r.created = append(r.created, rec.ID)
	return r.Ledger.CreateActivity(ctx, rec)
}

func (r *recording) DropActivity(ctx context.Context, id activity.ID) error {
	r.dropped = append(r.dropped, id)
	return r.Ledger.DropActivity(ctx, id)
}

// intercept replaces the next send by do.
func (w *world) intercept(do func() error) {
	w.change = append(w.change, func(s *settings) {
		s.enqueue.Queues[queue.Normal] = &interceptor{s.enqueue.Queues[queue.Normal], do}
	})
	w.restart(w.plan)
}

type interceptor struct {
	queue.Sender
	do func() error
}

func (i *interceptor) Send(ctx context.Context, m queue.Message) error {
	if do := i.do; do != nil {
		i.do = nil
		return do()
	}
	return i.Sender.Send(ctx, m)
}
