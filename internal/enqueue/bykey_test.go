package enqueue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

func byKey(r *enqueue.Request) { r.DeduplicateBy = enqueue.ByKey }

// resigned is note with other bytes, and of another type.
func resigned(r *enqueue.Request) {
	r.Body = ptr(strings.Replace(note, `"Create"`, `"Update","published":"2026-11-21T12:00:01Z"`, 1))
}

// TestByKeyADuplicateMayHaveAnotherBody, on queues that deduplicate and on others, within the
// queue's own window and with a marker. The first body is sent, once.
func TestByKeyADuplicateMayHaveAnotherBody(t *testing.T) {
	check := func(t *testing.T, e engines.Engine, on func(*enqueue.Request)) {
		for name, window := range map[string]func(*enqueue.Request){"default window": func(*enqueue.Request) {}, "a day": ttl(24 * time.Hour)} {
			t.Run(name, func(t *testing.T) {
				w := newWorldOn(t, e, faults.NewPlan())
				first := w.must(request(on, window, key("k"), byKey), enqueue.Queued)
				w.wait(time.Minute)
				if second := w.must(request(on, window, key("k"), byKey, resigned), enqueue.Duplicate); second != first {
					t.Errorf("duplicate of %s, want of %s", second, first)
				}
				var mismatch *dedup.MismatchError
				other := request(on, window, key("k"), byKey)
				other.Recipients = other.Recipients[:1]
				if _, err := w.enqueue(other); !errors.As(err, &mismatch) {
					t.Errorf("other inboxes under the key: %v, want a mismatch", err)
				}
				if _, err := w.enqueue(request(on, window, key("k"), resigned)); !errors.As(err, &mismatch) {
					t.Errorf("another body without deduplicateBy: %v, want a mismatch", err)
				}
				if got := w.one().Message.Activity; got.ID != first || got.Body != note {
					t.Errorf("%s arrived with %s", got.ID, got.Body)
				}
			})
		}
	}
	t.Run("standard", func(t *testing.T) { check(t, engines.Embedded(), func(*enqueue.Request) {}) })
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) { check(t, e, on) })
}

// TestByKeyATakeOverMayHaveAnotherBody: the first call has died before it sent, and is
// repeated with a body that was signed anew.
func TestByKeyATakeOverMayHaveAnotherBody(t *testing.T) {
	r := request(key("k"), byKey)
	w := newWorld(t, faults.NewPlan(faults.Fault{Call: sendOf(t, r), Kind: faults.DieBefore}))
	if _, err := w.enqueue(r); err == nil {
		t.Fatal("the first call was accepted")
	}
	w.restart(faults.NewPlan())
	w.wait(dedup.LeaseTime + time.Second)
	id := w.must(request(key("k"), byKey, resigned), enqueue.Queued)
	if got := w.one().Message.Activity; got.ID != id || !strings.Contains(got.Body, "Update") {
		t.Errorf("%s arrived with %s", got.ID, got.Body)
	}
	if r, err := w.truth.Activity(t.Context(), id); err != nil || r.Targets != 2 {
		t.Errorf("record %+v, %v", r, err)
	}
}

func TestDeduplicateByIsRequestOrKeyAndNeedsAKey(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	for name, c := range map[string]enqueue.Request{
		"without a key": request(byKey),
		"another word":  request(key("k"), func(r *enqueue.Request) { r.DeduplicateBy = "body" }),
	} {
		_, err := w.enqueue(c)
		if _, ok := faultsOf(t, err)["/deduplicateBy"]; !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	batch := enqueue.BatchRequest{Requests: []enqueue.Request{request()}, DeduplicationKey: ptr("b"), DeduplicateBy: enqueue.ByKey}
	var seen []activity.ID
	for _, status := range []enqueue.Status{enqueue.Queued, enqueue.Duplicate} {
		got, err := w.service.EnqueueBatch(t.Context(), batch)
		if err != nil || got[0].Status != status {
			t.Fatalf("batch: %+v, %v, want %s", got, err, status)
		}
		seen = append(seen, got[0].ID)
		resigned(&batch.Requests[0])
	}
	if seen[0] != seen[1] {
		t.Errorf("batch: %v", seen)
	}
}
