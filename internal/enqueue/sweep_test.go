package enqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// scenarios holds one request for each way that a call can take.
func scenarios() map[string]enqueue.BatchRequest {
	one := func(change ...func(*enqueue.Request)) enqueue.BatchRequest {
		r := request(change...)
		b := enqueue.BatchRequest{DeduplicationKey: r.DeduplicationKey, DeduplicationTTL: r.DeduplicationTTL}
		r.DeduplicationKey, r.DeduplicationTTL = nil, 0
		b.Requests = []enqueue.Request{r}
		return b
	}
	several := func(k *string, change ...func(*enqueue.Request)) enqueue.BatchRequest {
		return enqueue.BatchRequest{DeduplicationKey: k, Requests: []enqueue.Request{request(change...), request(append(change, body(`{"actor":"x"}`))...)}}
	}
	crowd := func(r *enqueue.Request) {
		r.Recipients = inboxes(100, 0) // more than a message of these worlds holds
	}
	return map[string]enqueue.BatchRequest{
		"without a key":                     one(),
		"marker":                            one(key("k")),
		"marker, delayed by the queue":      one(key("k"), delay(time.Minute)),
		"marker, delayed by the agenda":     one(key("k"), delay(time.Hour)),
		"marker, by reference":              one(key("k"), crowd),
		"marker, delayed, by reference":     one(key("k"), crowd, delay(time.Hour)),
		"ordered":                           one(ordered("o")),
		"ordered, native":                   one(ordered("o"), key("k")),
		"ordered, native, by reference":     one(ordered("o"), key("k"), crowd),
		"ordered, longer window":            one(ordered("o"), key("k"), ttl(time.Hour)),
		"ordered, delayed":                  one(ordered("o"), key("k"), delay(time.Minute)),
		"batch":                             several(ptr("k")),
		"batch, delayed":                    several(ptr("k"), delay(time.Hour)),
		"batch, ordered":                    several(ptr("k"), ordered("o")),
		"batch, ordered and delayed":        several(ptr("k"), ordered("o"), delay(time.Hour)),
		"batch without a key, by reference": several(nil, crowd),
	}
}

// submit sends a scenario as its kind of call.
func (w *world) submit(b enqueue.BatchRequest) ([]enqueue.Result, error) {
	if len(b.Requests) > 1 {
		return w.service.EnqueueBatch(w.Context(), b)
	}
	r := b.Requests[0]
	r.DeduplicationKey, r.DeduplicationTTL = b.DeduplicationKey, b.DeduplicationTTL
	res, err := w.enqueue(r)
	return []enqueue.Result{res}, err
}

// Every call that accepting makes to queue or table is broken in every way:
// nothing accepted is lost, one key stands for one activity, and no key swallows
// a retry.
func TestNothingAcceptedIsLostNorDoubledWhateverCallFails(t *testing.T) {
	for name, b := range scenarios() {
		t.Run(name, func(t *testing.T) {
			sweep := engines.Sweep
			if b.Requests[0].OrderingKey != "" {
				sweep = engines.SweepOrdered
			}
			sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
				w := newWorldOn(t, e, p, func(s *settings) { s.maxMessage = 4 << 10 })
				results := w.submitUntilAccepted(b)
				if results == nil {
					return
				}
				w.comeToRest(b.Requests[0].Delay)
				w.checkArrivals(b, results)
			})
		})
	}
}

// submitUntilAccepted calls as a client does: with a key, again until accepted;
// without one, once.
func (w *world) submitUntilAccepted(b enqueue.BatchRequest) []enqueue.Result {
	w.Helper()
	for range 5 {
		results, err := w.submit(b)
		if err == nil && !w.plan.Dead() {
			return results
		}
		died := w.plan.Dead()
		w.plan.Revive()
		var held *dedup.HeldError
		var send *enqueue.SendError
		switch {
		case errors.As(err, &held):
			if held.RetryAfter > dedup.LeaseTime {
				w.Errorf("told to come back in %s", held.RetryAfter)
			}
			w.wait(held.RetryAfter)
		case err != nil && !errors.As(err, &send):
			w.Fatalf("an error that tells the client nothing: %v", err)
		case b.DeduplicationKey == nil:
			// Without a key the client cannot retry safely. If the error said for
			// certain that nothing was queued, nothing must be on the queue.
			w.comeToRest(b.Requests[0].Delay)
			if n := len(w.arrived()); send != nil && !send.MaybeSent && !died && n > 0 {
				w.Errorf("%d activities arrived after %v", n, err)
			}
			return nil
		}
	}
	w.Fatal("the key swallows the client's retries")
	return nil
}

// comeToRest lets delays pass and runs the scheduled function until no work is
// left.
func (w *world) comeToRest(delay time.Duration) {
	w.Helper()
	w.wait(delay + time.Minute)
	for range 3 {
		if _, err := w.release.Release(w.Context(), w.now()); err == nil && !w.plan.Dead() {
			return
		}
		w.plan.Revive()
		w.wait(time.Minute)
	}
	w.Fatal("the agenda does not get released")
}

// checkArrivals compares what arrived with what was answered.
func (w *world) checkArrivals(b enqueue.BatchRequest, results []enqueue.Result) {
	w.Helper()
	arrived := map[activity.ID]arrival{}
	for _, a := range w.arrived() {
		arrived[a.Message.Activity.ID] = a
	}
	if len(arrived) != len(results) {
		w.Errorf("%d different activities arrived for %d accepted", len(arrived), len(results))
	}
	for i, res := range results {
		a, ok := arrived[res.ID]
		if !ok {
			w.Errorf("activity %s was accepted and is lost", res.ID)
			continue
		}
		if a.Message.Activity.Body != *b.Requests[i].Body {
			w.Errorf("activity %d has another's body", i)
		}
		if n := len(b.Requests[i].Recipients); res.Recipients != n {
			w.Errorf("activity %d has %d recipients, want %d", i, res.Recipients, n)
		}
		r, err := w.truth.Activity(w.Context(), res.ID)
		if u := a.Message.Unrecorded; err != nil && u != nil && !u.Forget.IsZero() {
			// The first worker on the message writes the missing record.
		} else if err != nil {
			w.Errorf("record of activity %d: %v", i, err)
		} else if r.Targets != len(b.Requests[i].Recipients) || !r.CreatedAt.Equal(a.Message.Activity.CreatedAt) {
			w.Errorf("record of activity %d is %+v", i, r)
		}
	}
	if b.DeduplicationKey == nil {
		return
	}
	// A last retry, to another process, reaches the same activities: the retry is
	// a duplicate or, if the first call could not confirm, sends them once more.
	w.restart(faults.NewPlan())
	if b.DeduplicationTTL == 0 && b.Requests[0].OrderingKey != "" && b.Requests[0].Delay == 0 {
		return // the queue's own window of five minutes may be over by now
	}
	again := w.submitUntilAccepted(b)
	for i, res := range again {
		if res.ID != results[i].ID {
			w.Errorf("a retry afterwards made another activity: %+v, was %+v", res, results[i])
		}
	}
}

// Breaks every call of a release with several tasks due, on both kinds of queue.
func TestReleasedOnceWhateverCallFails(t *testing.T) {
	engines.Sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
		w := newWorldOn(t, e, faults.NewPlan())
		want := map[activity.ID]bool{}
		for _, k := range []string{"a", "b", "c"} {
			want[w.must(request(delay(time.Hour), body(`{"actor":"`+k+`"}`)), enqueue.Queued)] = true
			want[w.must(request(delay(time.Hour), ordered("o"), body(`{"actor":"`+k+`"}`)), enqueue.Queued)] = true
		}
		w.restart(p)
		w.comeToRest(time.Hour)
		var bodies []string
		for _, a := range w.arrived() {
			delete(want, a.Message.Activity.ID)
			if a.Queue == queue.Ordered {
				bodies = append(bodies, a.Message.Activity.Body)
			}
		}
		for id := range want {
			t.Errorf("activity %s is lost", id)
		}
		if !slices.IsSorted(bodies) {
			t.Errorf("the ordered ones arrived as %q", bodies)
		}
		w.restart(faults.NewPlan())
		w.wait(time.Hour)
		if n, err := w.release.Release(t.Context(), w.now()); n != 0 || err != nil {
			t.Errorf("afterwards %d were released again, %v", n, err)
		}
	})
}

// inboxes makes n recipients with URLs of about size bytes.
func inboxes(n, size int) []enqueue.Recipient {
	all := make([]enqueue.Recipient, n)
	for i := range all {
		url := fmt.Sprintf("https://social-%d.example/users/person-%d/inbox", i, i)
		all[i].Inbox = url + strings.Repeat("x", max(0, size-len(url)))
	}
	return all
}

var _ enqueue.Ledger = ledger.Store(nil)
