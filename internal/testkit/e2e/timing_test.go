package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/property"
)

// order sends a Create, an Update and a Delete of several notes to a server that
// answers 503 now and then: each note's come in order, whatever has to be
// repeated.
func order(t *testing.T, w *World) {
	const notes = 6
	r, steady := w.Remote(), w.Remote()
	failures, draw := 0, property.Rand(t)
	for range 4 * notes {
		step := fediverse.Status(202)
		if draw.IntN(3) == 0 {
			step = fediverse.Status(503)
			failures++
		}
		r.Then(step)
	}
	for _, id := range w.stories(notes, r, steady) {
		w.Ends(id, map[string]int{"delivered": 2})
	}
	inOrder(t, notes, r, steady)
	t.Logf("%d failures in between", failures)
}

// orderThroughOutage sends the same activities while the server is down for so long that
// they are parked. They are released, in order, when the server is back.
func orderThroughOutage(t *testing.T, w *World) {
	const notes = 4
	r, steady := w.Remote(), w.Remote()
	r.Down()
	ids := w.stories(notes, r, steady)
	for _, id := range ids {
		w.Ends(id, map[string]int{"delivered": 1, "parked": 1})
	}
	r.Up()
	for _, id := range ids {
		w.Ends(id, map[string]int{"delivered": 2})
	}
	inOrder(t, notes, r, steady)
}

var verbs = []string{"create", "update", "delete"}

// stories sends all verbs of some notes to two servers, and returns the ids.
func (w *World) stories(notes int, r, steady *Remote) []string {
	w.t.Helper()
	var ids []string
	for n := range notes {
		for _, verb := range verbs {
			s := submission(note(fmt.Sprintf("%d-%s", n, verb)), "", r.URL("/inbox"), steady.URL("/inbox"))
			s.OrderingKey = fmt.Sprintf("https://mastodon.example/notes/%d", n)
			ids = append(ids, w.Accept(s).ID)
		}
	}
	return ids
}

// inOrder checks that servers took each note's activities in order.
func inOrder(t *testing.T, notes int, remotes ...*Remote) {
	t.Helper()
	for _, remote := range remotes {
		seen := map[string][]string{}
		for _, p := range remote.Accepted() {
			n, verb, _ := strings.Cut(strings.TrimPrefix(p.ActivityID, noteID("")), "-")
			seen[n] = append(seen[n], verb)
		}
		for n, got := range seen {
			if !slices.Equal(got, verbs) {
				t.Errorf("%s got of note %s: %v", remote.Host, n, got)
			}
		}
		if len(seen) != notes {
			t.Errorf("%s got something of %d notes, want %d", remote.Host, len(seen), notes)
		}
	}
}

// delay sends an activity with a delay: a later activity without a delay overtakes it. A
// machine may be too busy to send the later one within the delay, so a longer one is tried
// then.
func delay(t *testing.T, w *World) {
	for _, wait := range []time.Duration{3 * time.Second, 12 * time.Second, 48 * time.Second} {
		if overtaken(t, w, wait) {
			return
		}
	}
	t.Error("what had no delay was never sent before what had one")
}

// overtaken reports whether an activity without a delay is sent before one with a delay.
func overtaken(t *testing.T, w *World, wait time.Duration) bool {
	t.Helper()
	r := w.Remote()
	s := submission(note("delayed"+wait.String()), "", r.URL("/inbox"))
	s.Delay = client.Duration(wait)
	begin := time.Now()
	id := w.Accept(s).ID
	w.Ends(w.Send(note("at-once"+wait.String()), r.URL("/inbox")), map[string]int{"delivered": 1})
	waiting, err := w.Activity(t.Context(), id)
	if err != nil || (waiting.Status != "queued" && time.Since(begin) < wait) {
		t.Errorf("while it waits: %+v, %v", waiting, err)
	}
	w.EndsWithin(wait+time.Minute, id, map[string]int{"delivered": 1})
	posts := r.Posts()
	if len(posts) != 2 {
		t.Fatalf("%d POSTs", len(posts))
	}
	for _, p := range posts {
		if waited := p.At.Sub(begin); p.ActivityID == noteID("delayed"+wait.String()) && waited < wait {
			t.Errorf("delivered after %s, with a delay of %s", waited, wait)
		}
	}
	return posts[0].ActivityID == noteID("at-once"+wait.String())
}

// throttled lets a server answer 429 with a Retry-After. No delivery goes to the server
// until that time is over; then the server gets every activity.
func throttled(t *testing.T, w *World) {
	const pause = 3 * time.Second
	r := w.Remote()
	r.Then(fediverse.RetryAfter(429, "3"))
	first := w.Send(note("first"), r.URL("/users/1/inbox"))
	// Wait until the answer is recorded; but not too long, or the pause is over.
	Await(t, w.Patience(time.Minute), "throttled", func() (bool, string) {
		phase := w.phase(r)
		return phase == "paused" || len(r.Posts()) > 1, fmt.Sprintf("%d POSTs, %s", len(r.Posts()), phase)
	})
	second := w.Send(note("second"), r.URL("/users/2/inbox"))
	w.Ends(first, map[string]int{"delivered": 1})
	w.Ends(second, map[string]int{"delivered": 1})
	posts := r.Posts()
	for _, p := range posts[1:] {
		if waited := p.At.Sub(posts[0].At); waited < pause {
			t.Errorf("%s came %s after the 429", p.ActivityID, waited)
		}
	}
	accepted(t, r, noteID("first"), noteID("second"))
}
