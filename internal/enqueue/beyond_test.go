package enqueue_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/testkit/faults"
)

// TestATakeOverThatFailsKeepsTheID: the first holder may have sent, so the key
// must not become free for another id.
func TestATakeOverThatFailsKeepsTheID(t *testing.T) {
	w := newWorld(t, faults.NewPlan(
		faults.Fault{Call: 4, Kind: faults.DieAfter}, // sent, not confirmed
		faults.Fault{Call: 9, Kind: faults.Refuse},   // 5 reserve, 6 take over, 7 list, 8 record, 9 send
	))
	if _, err := w.enqueue(request(key("k"))); err == nil {
		t.Fatal("the call did not die")
	}
	w.plan.Revive()
	first := w.only()
	w.wait(dedup.LeaseTime)
	if _, err := w.enqueue(request(key("k"))); !queue.NotSent(err) {
		t.Fatalf("got %v after %v", err, w.plan.Calls())
	}
	// The next caller need not wait for a lease.
	if again := w.must(request(key("k")), enqueue.Queued); again != first {
		t.Errorf("activity %s, want %s", again, first)
	}
}

func TestKeysAreNamespacedPerQueueAndOperation(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	seen := map[activity.ID]bool{}
	for _, p := range activity.Priorities {
		seen[w.must(request(key("k"), func(r *enqueue.Request) { r.Priority = p }), enqueue.Queued)] = true
	}
	seen[w.must(request(key("k"), ordered("o")), enqueue.Queued)] = true
	batch, err := w.service.EnqueueBatch(t.Context(), enqueue.BatchRequest{DeduplicationKey: ptr("k"), Requests: []enqueue.Request{request()}})
	if err != nil {
		t.Fatal(err)
	}
	seen[batch[0].ID] = true
	if len(seen) != 5 {
		t.Errorf("%d activities, want 5", len(seen))
	}
}

func TestAnyStringIsAValidKey(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	for _, k := range []string{" ", "\x00", "ключ 🗝", "a\nb", "#", strings.Repeat("long ", 100_000), "\xff\xfe", "'; DROP TABLE", "k", "K"} {
		for _, o := range []string{"", "o"} {
			first := w.must(request(key(k), ordered(o)), enqueue.Queued)
			if again := w.must(request(key(k), ordered(o)), enqueue.Duplicate); again != first {
				t.Errorf("key %.20q, ordering key %q: another activity", k, o)
			}
		}
	}
}

func TestADifferentRequestUnderTheSameKeyIsRefused(t *testing.T) {
	for _, o := range []string{"", "o"} {
		w := newWorld(t, faults.NewPlan())
		first := w.must(request(key("k"), ordered(o)), enqueue.Queued)
		for what, change := range map[string]func(*enqueue.Request){
			"body":       body(note + " "),
			"recipients": func(r *enqueue.Request) { r.Recipients = r.Recipients[:1] },
			"expiry":     func(r *enqueue.Request) { r.ExpiresIn = time.Hour },
			"coalesce":   func(r *enqueue.Request) { r.Coalesce = activity.CoalesceLatest },
		} {
			_, err := w.enqueue(request(key("k"), ordered(o), change))
			var mismatch *dedup.MismatchError
			if !errors.As(err, &mismatch) || mismatch.ID != first {
				t.Errorf("another %s: %v", what, err)
			}
		}
		// Another order of recipients or another window is no different request.
		w.must(request(key("k"), ordered(o), func(r *enqueue.Request) {
			slices.Reverse(r.Recipients)
			r.DeduplicationTTL = 2 * time.Minute
		}), enqueue.Duplicate)
		w.only()
	}
}

func TestOfSixtyFourConcurrentCallersOneWins(t *testing.T) {
	for name, change := range map[string][]func(*enqueue.Request){
		"marker": {key("k")},
		"native": {key("k"), ordered("o")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			var mu sync.Mutex
			answers := map[enqueue.Status]int{}
			seen := map[activity.ID]bool{}
			held := 0
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					res, err := w.enqueue(request(change...))
					mu.Lock()
					defer mu.Unlock()
					var busy *dedup.HeldError
					switch {
					case errors.As(err, &busy):
						held++
					case err != nil:
						t.Error(err)
					default:
						answers[res.Status]++
						seen[res.ID] = true
					}
				})
			}
			wg.Wait()
			if answers[enqueue.Queued] != 1 || answers[enqueue.Duplicate]+held != 63 || len(seen) != 1 {
				t.Errorf("answers %v, held %d, activities %v", answers, held, seen)
			}
			if !seen[w.one().Message.Activity.ID] {
				t.Error("another activity arrived")
			}
		})
	}
}
