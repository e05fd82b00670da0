package e2e

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/fediverse"
)

// deduplication repeats requests with a key: alone, at the same time, as header,
// with another content, on the standard and on the ordered queue.
func deduplication(t *testing.T, w *World) {
	for _, ordering := range []string{"", "zoe"} {
		name := "once" + ordering
		r := w.Remote()
		s := submission(note(name), KeyID, r.URL("/inbox"))
		s.DeduplicationKey, s.OrderingKey = "key/"+name, ordering
		first := w.Accept(s)
		if first.Status != "queued" {
			t.Errorf("%s: first answer %+v", name, first)
		}
		if again := w.Accept(s); again.ID != first.ID || again.Status != "duplicate" {
			t.Errorf("%s: second answer %+v to activity %s", name, again, first.ID)
		}
		byHeader := s
		byHeader.DeduplicationKey = ""
		if a, err := w.withHeader("Idempotency-Key", "key/"+name).Send(t.Context(), byHeader); err != nil || a.ID != first.ID || a.Status != "duplicate" {
			t.Errorf("%s: answer to the key as header: %+v, %v", name, a, err)
		}
		other := submission(note("another"), KeyID, r.URL("/inbox"))
		other.DeduplicationKey, other.OrderingKey = s.DeduplicationKey, ordering
		_ = refused(t, w, other, http.StatusUnprocessableEntity)
		w.Ends(first.ID, map[string]int{"delivered": 1})
		if again := w.Accept(s); again.ID != first.ID || again.Status != "duplicate" {
			t.Errorf("%s: answer after the delivery: %+v", name, again)
		}
		accepted(t, r, noteID(name))
	}
	concurrent(t, w)
}

// concurrent sends one request many times at once. Every answer either gives the id of
// the first request's activity or says that the first request is in progress.
func concurrent(t *testing.T, w *World) {
	r := w.Remote()
	s := submission(note("at-once"), KeyID, r.URL("/inbox"))
	s.DeduplicationKey = "at once"
	var mu sync.Mutex
	var wg sync.WaitGroup
	ids, queued, busy := map[string]bool{}, 0, 0
	const callers = 64
	for range callers {
		wg.Go(func() {
			a, err := w.Client.Send(t.Context(), s)
			var p *client.Problem
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.As(err, &p) && p.Status == http.StatusConflict && p.RetryAfter > 0:
				busy++
			case err != nil:
				t.Errorf("submit: %v", err)
			default:
				ids[a.ID] = true
				if a.Status == "queued" {
					queued++
				}
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || queued != 1 {
		t.Errorf("%d calls at once: ids %v, %d times queued, %d times in progress", callers, ids, queued, busy)
	}
	for id := range ids {
		w.Ends(id, map[string]int{"delivered": 1})
	}
	accepted(t, r, noteID("at-once"))
}

// refused submits s and expects a problem of a status.
func refused(t *testing.T, w *World, s client.Submission, status int) *client.Problem {
	t.Helper()
	_, err := w.Client.Send(t.Context(), s)
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != status {
		t.Errorf("answer %v, want %d", err, status)
		return &client.Problem{}
	}
	return p
}

// withHeader is a client that sends one more header.
func (w *World) withHeader(name, value string) *client.Client {
	return caller.Of(w.t, w.url, caller.Through(headed{w.transport, name, value}))
}

type headed struct {
	http.RoundTripper
	name, value string
}

func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.RoundTripper.RoundTrip(r)
}

// cancel stops an activity that is delivered to one server and waits for
// another.
func cancel(t *testing.T, w *World) {
	good, bad := w.Remote(), w.Remote()
	bad.Always(fediverse.Status(503))
	id := w.Send(note("cancelled"), good.URL("/inbox"), bad.URL("/inbox"))
	Await(t, w.Patience(time.Minute), "delivered to one", func() (bool, string) {
		s, err := w.Activity(t.Context(), id)
		if err != nil {
			return false, err.Error()
		}
		return s.Counts["delivered"] == 1, describe(s)
	})
	if err := w.cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	s := w.Ends(id, map[string]int{"delivered": 1, "cancelled": 1})
	if s.Status != "cancelled" {
		t.Errorf("status %q", s.Status)
	}
	// Another server: the circuit of the bad one may have opened meanwhile.
	other, wait := w.cancelDelayed()
	// If the cancelled one was sent, this later one with the same delay would not overtake it.
	marker := submission(note("marker"), "", other.URL("/inbox"))
	marker.Delay = client.Duration(wait + time.Second)
	w.EndsWithin(wait+time.Minute, w.Accept(marker).ID, map[string]int{"delivered": 1})
	accepted(t, other, noteID("marker"))
	var p *client.Problem
	done := w.Accept(submission(note("done"), "", other.URL("/inbox"))).ID
	w.Ends(done, map[string]int{"delivered": 1})
	if err := w.cancel(t.Context(), done); !errors.As(err, &p) || p.Status != http.StatusConflict {
		t.Errorf("cancelling what is done: %v", err)
	}
	if err := w.cancel(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"); !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("cancelling what is not there: %v", err)
	}
}

// cancelDelayed cancels an activity that waits for its delay, and returns the delay and the
// server that gets nothing. A machine may be too busy to cancel it within the delay; then a
// longer delay is tried, with another server.
func (w *World) cancelDelayed() (*Remote, time.Duration) {
	w.t.Helper()
	for wait := 4 * time.Second; ; wait *= 4 {
		r := w.Remote()
		delayed := submission(note("later"+wait.String()), "", r.URL("/inbox"))
		delayed.Delay = client.Duration(wait)
		begin := time.Now()
		id := w.Accept(delayed).ID
		err := w.cancel(w.t.Context(), id)
		switch {
		case time.Since(begin) >= wait && wait < time.Minute:
		case err != nil:
			w.t.Fatal(err)
		default:
			w.Ends(id, map[string]int{"cancelled": 1})
			return r, wait
		}
	}
}

func (w *World) cancel(ctx context.Context, id string) error {
	return w.Do(ctx, http.MethodPost, "/v1/activities/"+id+"/cancel", nil, nil)
}
