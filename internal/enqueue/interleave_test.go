package enqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/message"
	"fedpost/internal/store"
	"fedpost/internal/testkit/property"
)

// TestInterleavings runs 1,000 random interleavings of callers with one key,
// each in a process of its own that may be slow, lose answers or die at any
// call, against a reference model of the marker.
func TestInterleavings(t *testing.T) {
	engine, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, seen := 0, map[string]int{}
	lacking := func() string {
		for _, what := range []string{"queued", "duplicate", "held", "mismatch", "taken over", "given back", "yielded", "not sent", "maybe sent", "unavailable", "too late", "died"} {
			if seen[what] < 5 {
				return what
			}
		}
		return ""
	}
	// Ten times rapid's 100, and more while a rare event is still missing.
	for i := 0; i < 10 || i < 100 && lacking() != ""; i++ {
		property.Check(t, func(rt *rapid.T) {
			n++
			s := &scheduler{T: rt, engine: engine, clock: noon, key: fmt.Sprint("key ", n), sent: map[activity.ID]time.Time{}, seen: seen}
			s.store = store.New(engine.Table(), s.now)
			defer s.killAll()
			s.run()
		})
	}
	// A run in which some event never happens shows nothing about that event.
	if what := lacking(); what != "" {
		t.Errorf("%q happened %d times only", what, seen[what])
	}
	t.Logf("seen: %v", seen)
}

// window is the window that the callers ask for.
const window = 20 * time.Minute

// patience is how long a call may take before its process is killed, as
// Lambda does.
const patience = 5 * time.Minute

// effect is how the scheduler lets a call end.
type effect int

const (
	act effect = iota
	refuse
	lose // the call acts, but its answer is lost
	dieBefore
	dieAfter
)

// scheduler lets one caller at a time make one call.
type scheduler struct {
	*rapid.T
	engine  *sqlite.Engine
	store   *store.Store
	clock   time.Time
	key     string
	callers []*caller
	made    int

	model model
	sent  map[activity.ID]time.Time // when activities got onto the queue first
	loose bool                      // an open fallback went on without a marker

	seen    map[string]int
	failure string
}

// wrong records a failure. A caller cannot fail the test itself: only the
// scheduler's goroutine may.
func (s *scheduler) wrong(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
	}
}

func (s *scheduler) now() time.Time { return s.clock }

// caller is one call of the service, in a process of its own.
type caller struct {
	s       *scheduler
	request enqueue.Request
	service *enqueue.Service
	started time.Time

	turn  chan effect
	yield chan string // the call it wants to make; closed at the end

	wants    string
	ended    bool
	result   enqueue.Result
	err      error
	died     bool
	open     bool // its fallback
	tookOver bool
	// released: the caller gave its lease back after a definite failure.
	released bool
}

func (s *scheduler) run() {
	for range rapid.IntRange(3, 40).Draw(s.T, "steps") {
		switch live := s.live(); {
		case len(live) == 0 && rapid.IntRange(0, 3).Draw(s.T, "jump") == 0:
			s.clock = s.clock.Add(rapid.SampledFrom([]time.Duration{dedup.LeaseTime, 11 * time.Minute, window + 11*time.Minute}).Draw(s.T, "far"))
		case len(live) == 0 || len(live) < 5 && rapid.IntRange(0, 4).Draw(s.T, "new") == 0:
			s.start(rapid.IntRange(0, 5).Draw(s.T, "other payload") == 0, rapid.IntRange(0, 7).Draw(s.T, "open") == 0)
		case rapid.IntRange(0, 5).Draw(s.T, "wait") == 0:
			s.clock = s.clock.Add(rapid.SampledFrom([]time.Duration{time.Second, 9 * time.Second, 20 * time.Second, dedup.LeaseTime + time.Second}).Draw(s.T, "near"))
			for _, c := range live {
				if s.clock.Sub(c.started) > patience {
					s.step(c, dieBefore)
				}
			}
		default:
			c := rapid.SampledFrom(live).Draw(s.T, "caller")
			e, odds := act, 3
			if c.wants == "send" {
				odds = 1 // trouble matters most there
			}
			if c.tookOver {
				odds = 0 // take-overs are rare, and a take-over that fails and gives the lease back is rarer
			}
			if rapid.IntRange(0, odds).Draw(s.T, "trouble") == 0 {
				e = effect(rapid.IntRange(int(refuse), int(dieAfter)).Draw(s.T, "effect"))
			}
			s.step(c, e)
		}
	}
	for len(s.live()) > 0 {
		s.step(s.live()[0], act)
	}
	s.client()
}

// client is the last caller, with no faults: whatever has happened before, its
// call succeeds once no lease is in the way.
func (s *scheduler) client() {
	for range 3 {
		s.start(false, false)
		c := s.callers[len(s.callers)-1]
		for !c.ended {
			s.step(c, act)
		}
		var held *dedup.HeldError
		var mismatch *dedup.MismatchError
		switch {
		case errors.As(c.err, &held):
			s.clock = s.clock.Add(held.RetryAfter)
			continue
		case errors.As(c.err, &mismatch):
			if !s.model.live(s.clock) || s.model.marker.Fingerprint == "" {
				s.Fatal("mismatch with nothing")
			}
			return
		case c.err != nil:
			s.Fatalf("in good times: %v", c.err)
		}
		return
	}
	s.Fatal("the key swallows the client's retries")
}

func (s *scheduler) live() []*caller {
	return slices.DeleteFunc(slices.Clone(s.callers), func(c *caller) bool { return c.ended })
}

func (s *scheduler) start(other, open bool) {
	s.made++
	entropy := mrand.NewChaCha8([32]byte{byte(s.made)})
	c := &caller{s: s, started: s.clock, turn: make(chan effect), yield: make(chan string), request: request(key(s.key), ttl(window)), open: open}
	if other {
		c.request.Body, c.request.AllowKeyOfOther = ptr(`{"actor":"another"}`), true
	}
	fallback := dedup.Closed
	if open {
		fallback = dedup.Open
	}
	log := slog.New(slog.DiscardHandler)
	c.service = enqueue.New(enqueue.Options{
		Protocols: protocols,
		Queues:    map[queue.Name]queue.Sender{queue.Normal: c}, Ledger: c, Keys: keys{keyID: true},
		Markers: dedup.New(c, dedup.Options{Now: s.now, Entropy: entropy, Log: log, Fallback: fallback}),
		Now:     s.now, Entropy: entropy, Log: log,
	})
	s.callers = append(s.callers, c)
	go func() {
		defer close(c.yield)
		c.died = true // until the call returns
		res, err := c.service.Enqueue(context.Background(), c.request)
		c.result, c.err, c.died = res, err, false
	}()
	s.await(c)
}

// await lets c run until it wants to make its next call, or ends.
func (s *scheduler) await(c *caller) {
	var more bool
	c.wants, more = <-c.yield
	c.ended = !more
	if s.failure != "" {
		s.Fatal(s.failure)
	}
	if more {
		return
	}
	if c.died {
		s.seen["died"]++
	} else {
		s.judge(c)
	}
}

func (s *scheduler) step(c *caller, e effect) {
	if c.ended {
		return
	}
	c.turn <- e
	s.await(c)
}

// killAll ends the callers that a failed run leaves behind.
func (s *scheduler) killAll() {
	for _, c := range s.live() {
		c.turn <- dieBefore
		<-c.yield
	}
}

// judge compares a caller's answer with what has really happened.
func (s *scheduler) judge(c *caller) {
	if c.err == nil {
		s.seen[string(c.result.Status)]++
		if s.sent[c.result.ID].IsZero() {
			s.Fatalf("told %s of activity %s, which is not on the queue", c.result.Status, c.result.ID)
		}
		return
	}
	var held *dedup.HeldError
	var mismatch *dedup.MismatchError
	var send *enqueue.SendError
	switch {
	case errors.As(c.err, &held):
		s.seen["held"]++
	case errors.As(c.err, &mismatch):
		s.seen["mismatch"]++
	case errors.Is(c.err, dedup.ErrUnavailable):
		s.seen["unavailable"]++
	case errors.As(c.err, &send) && send.MaybeSent:
		s.seen["maybe sent"]++
		if c.released {
			s.Fatal("the key was given back though the activity may be on the queue")
		}
	case errors.As(c.err, &send):
		s.seen["not sent"]++
	default:
		s.Fatalf("an error that tells the client nothing: %v", c.err)
	}
}

// end is when a context ends on the scheduler's clock.
func (s *scheduler) end(ctx context.Context) time.Time {
	if t, ok := ctx.Deadline(); ok {
		return s.clock.Add(time.Until(t).Round(time.Second))
	}
	return s.clock.Add(patience)
}

func (s *scheduler) arrive(m queue.Message) {
	decoded, err := message.Decode(m.Body)
	if err != nil {
		s.wrong("%v", err)
		return
	}
	id := decoded.Activity.ID
	for other, at := range s.sent {
		if other != id && s.clock.Before(at.Add(window-patience)) && !s.loose {
			s.wrong("activity %s is sent %s after %s, in the same window", id, s.clock.Sub(at), other)
		}
	}
	if s.sent[id].IsZero() {
		s.sent[id] = s.clock
	}
}

// model is the reference: one marker that behaves as dedup.Store documents.
type model struct {
	marker dedup.Marker // none if its token is empty
}

// expected is what the model says a call must return.
type expected struct {
	found string // the token of the marker found
	err   error
}

func (m *model) live(now time.Time) bool {
	return m.marker.Token != "" && now.Before(m.marker.Expires)
}

func (m *model) reserve(want dedup.Marker, now time.Time) expected {
	if m.live(now) && m.marker.Token != want.Token {
		return expected{found: m.marker.Token}
	}
	m.marker = want
	return expected{}
}

func (m *model) replace(token string, want dedup.Marker) expected {
	if m.marker.Token == "" || m.marker.Token != token && m.marker.Token != want.Token {
		return expected{err: dedup.ErrLost}
	}
	m.marker = want
	return expected{}
}

func (m *model) release(token string) expected {
	if m.marker.Token != token || token == "" {
		return expected{err: dedup.ErrLost}
	}
	m.marker = dedup.Marker{}
	return expected{}
}

// agree checks that the real store did the same as the model.
func (s *scheduler) agree(op string, found *dedup.Marker, err error, want expected) {
	m := &s.model.marker
	got := expected{err: err}
	if found != nil {
		got.found = found.Token
		if found.ID != m.ID || found.State != m.State || !found.LeaseUntil.Equal(m.LeaseUntil) || found.Fingerprint != m.Fingerprint {
			s.wrong("%s found %+v, the model has %+v", op, *found, *m)
		}
	}
	if got.found != want.found || !errors.Is(got.err, want.err) || (got.err == nil) != (want.err == nil) {
		s.wrong("%s returned %+v, the model says %+v", op, got, want)
	}
}
