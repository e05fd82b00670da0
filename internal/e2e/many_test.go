package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activitypub/aptest"
	"fedpost/internal/client"
)

// tally is a server that takes everything without a look and counts it by user:
// /users/<n>/inbox.
type tally []atomic.Int32

func (c tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Reading it is only for the connection's sake.
	_, _ = io.Copy(io.Discard, r.Body)
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/users/"), "/inbox"))
	if err != nil || n >= len(c) {
		http.NotFound(w, r)
		return
	}
	c[n].Add(1)
	w.WriteHeader(http.StatusAccepted)
}

// many sends one activity to as many inboxes as one may have. It is signed with
// an Ed25519 key: RSA would take a processor half a minute.
func many(t *testing.T, w *World) {
	n := 50_000
	if w.Engine.Remote {
		// The stand-ins for SQS take 10 ms and more for a request.
		n = 10_000
	}
	if testing.Short() {
		n /= 10
	}
	w.AddKey(aptest.Ed25519KeyID, PrivatePEM(t, aptest.Ed25519KeyID))
	got := make(tally, n)
	r := Serve(t, got)
	begin := time.Now()
	s := submission(note("many"), aptest.Ed25519KeyID, r.URLs(n)...)
	s.DeduplicationKey = "many"
	a := w.Accept(s)
	answered := time.Since(begin)
	w.EndsWithin(100*time.Second, a.ID, map[string]int{"delivered": n})
	took := time.Since(begin)
	wrong := 0
	for i := range got {
		if times := got[i].Load(); times != 1 {
			wrong++
			if wrong < 5 {
				t.Errorf("inbox %d got it %d times", i, times)
			}
		}
	}
	t.Logf("%d recipients accepted in %s, delivered in %s (%.0f a second), %d not exactly once",
		n, answered.Round(time.Millisecond), took.Round(time.Millisecond), float64(n)/took.Seconds(), wrong)
}

// priorities floods the low queue and then sends a few urgent activities: these
// are done while the flood goes on.
func priorities(t *testing.T, w *World) {
	flood := 10_000
	if w.Engine.Remote {
		flood = 2_000
	}
	const urgent = 10
	w.AddKey(aptest.Ed25519KeyID, PrivatePEM(t, aptest.Ed25519KeyID))
	got := make(tally, flood)
	// 10 ms for each: the flood takes some seconds.
	low, high := Serve(t, slowly(10*time.Millisecond)(got)), w.Remote()
	var lows, highs []client.Accepted
	const each = 1000
	all := low.URLs(flood)
	for from := 0; from < flood; from += each {
		s := submission(note(fmt.Sprintf("low-%d", from)), aptest.Ed25519KeyID, all[from:from+each]...)
		s.Priority = "low"
		lows = append(lows, w.Accept(s))
	}
	begin := time.Now()
	for n := range urgent {
		s := submission(note(fmt.Sprintf("high-%d", n)), aptest.Ed25519KeyID, high.URL("/inbox"))
		s.Priority = "high"
		highs = append(highs, w.Accept(s))
	}
	for _, a := range highs {
		w.Ends(a.ID, map[string]int{"delivered": 1})
	}
	took, done := time.Since(begin), 0
	for i := range got {
		done += int(got[i].Load())
	}
	t.Logf("%d urgent ones were done after %s, when %d of the flood of %d were", urgent, took.Round(time.Millisecond), done, flood)
	if done >= flood/2 {
		t.Errorf("%d of %d in the flood went before", done, flood)
	}
	for _, a := range lows {
		w.EndsWithin(60*time.Second, a.ID, map[string]int{"delivered": each})
	}
	t.Logf("the flood was done after %s", time.Since(begin).Round(time.Millisecond))
}
