package dedup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/testkit/property"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestJudge(t *testing.T) {
	marker := func(s dedup.State, lease, expires time.Duration) *dedup.Marker {
		return &dedup.Marker{State: s, Fingerprint: "f", LeaseUntil: noon.Add(lease), Expires: noon.Add(expires)}
	}
	for name, c := range map[string]struct {
		found *dedup.Marker
		print string
		want  dedup.Verdict
	}{
		"none":                            {nil, "f", dedup.Free},
		"pending, in its lease":           {marker(dedup.Pending, time.Second, time.Hour), "f", dedup.Held},
		"pending, at the end of it":       {marker(dedup.Pending, 0, time.Hour), "f", dedup.Lapsed},
		"pending, after it":               {marker(dedup.Pending, -time.Second, time.Hour), "f", dedup.Lapsed},
		"sent":                            {marker(dedup.Sent, time.Second, time.Hour), "f", dedup.Done},
		"sent, its lease over":            {marker(dedup.Sent, -time.Hour, time.Second), "f", dedup.Done},
		"expired":                         {marker(dedup.Sent, -time.Hour, 0), "f", dedup.Free},
		"expired, of another request":     {marker(dedup.Sent, -time.Hour, -1), "g", dedup.Free},
		"expired while pending":           {marker(dedup.Pending, time.Second, 0), "f", dedup.Free},
		"another request, sent":           {marker(dedup.Sent, 0, time.Hour), "g", dedup.Different},
		"another request, in progress":    {marker(dedup.Pending, time.Second, time.Hour), "g", dedup.Different},
		"another request, its lease over": {marker(dedup.Pending, -time.Second, time.Hour), "g", dedup.Different},
	} {
		if got := dedup.Judge(c.found, c.print, noon); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

// TestDifferentNamesHaveDifferentHashes: also where the parts of two names
// join to the same text. Any store or queue accepts the hashes.
func TestDifferentNamesHaveDifferentHashes(t *testing.T) {
	charset := regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	name := rapid.Custom(func(t *rapid.T) dedup.Name {
		part := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab]{0,2}`))
		return dedup.Name{Queue: queue.Name(part.Draw(t, "queue")), Operation: part.Draw(t, "operation"), Key: part.Draw(t, "key")}
	})
	property.Check(t, func(t *rapid.T) {
		one, other := name.Draw(t, "one"), name.Draw(t, "other")
		if same := one.Hash() == other.Hash(); one == other && !same || one != other && same {
			t.Fatalf("%+v and %+v have the hashes %s and %s", one, other, one.Hash(), other.Hash())
		}
		if !charset.MatchString(one.Hash()) {
			t.Fatalf("hash %q", one.Hash())
		}
	})
}

// absent is a store that cannot be reached.
type absent struct{ calls int }

func (a *absent) FindMarker(context.Context, string) (*dedup.Marker, error) {
	a.calls++
	return nil, errors.New("unreachable")
}

func (a *absent) ReserveMarker(context.Context, string, dedup.Marker) (*dedup.Marker, error) {
	a.calls++
	return nil, errors.New("unreachable")
}

func (a *absent) ReplaceMarker(context.Context, string, string, dedup.Marker) error {
	a.calls++
	return dedup.ErrLost
}

func (a *absent) ReleaseMarker(context.Context, string, string) error {
	a.calls++
	return dedup.ErrLost
}

func newGuard(s dedup.Store, f dedup.Fallback, change ...func(*dedup.Options)) *dedup.Guard {
	o := dedup.Options{
		Fallback: f, Now: func() time.Time { return noon },
		Entropy: strings.NewReader(strings.Repeat("entropy ", 100)), Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	return dedup.New(s, o)
}

// TestALeaseWithoutAMarkerIsNeverDead: the marker may have been written, so
// another call may send under the lease's id.
func TestALeaseWithoutAMarkerIsNeverDead(t *testing.T) {
	l, err := newGuard(&absent{}, dedup.Open).Reserve(t.Context(), dedup.Claim{ID: "id", At: noon})
	if err != nil {
		t.Fatal(err)
	}
	if l.ID() != "id" || !l.At().Equal(noon) {
		t.Errorf("lease on %s at %s", l.ID(), l.At())
	}
	if dead, err := l.GiveBack(t.Context()); dead || err != nil {
		t.Errorf("dead: %t, %v", dead, err)
	}
}

// held is a store with one marker.
type held struct {
	absent
	marker *dedup.Marker
}

func (h *held) ReserveMarker(_ context.Context, _ string, m dedup.Marker) (*dedup.Marker, error) {
	if h.marker != nil {
		found := *h.marker
		return &found, nil
	}
	h.marker = &m
	return nil, nil
}

func (h *held) ReplaceMarker(_ context.Context, _, token string, m dedup.Marker) error {
	if h.marker.Token != token {
		return dedup.ErrLost
	}
	h.marker = &m
	return nil
}

// TestTheLeaseOfAProcessThatIsGoneIsOver for a process that has the table for itself: after a kill,
// callers that tried again got 409 for 30 s.
func TestTheLeaseOfAProcessThatIsGoneIsOver(t *testing.T) {
	guard := func(s dedup.Store, alone string) *dedup.Guard {
		return dedup.New(s, dedup.Options{Alone: alone, Now: func() time.Time { return noon }, Entropy: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	}
	var waits *dedup.HeldError
	for _, names := range [][2]string{{"life1.", "life2."}, {"", "life2."}} {
		s := &held{}
		first := guard(s, names[0])
		if _, err := first.Reserve(t.Context(), dedup.Claim{ID: "id", At: noon}); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Reserve(t.Context(), dedup.Claim{ID: "other", At: noon}); !errors.As(err, &waits) {
			t.Errorf("%v: while the first call is under way another gets %v", names, err)
		}
		l, err := guard(s, names[1]).Reserve(t.Context(), dedup.Claim{ID: "other", At: noon})
		if err != nil {
			t.Fatalf("%v: after a restart: %v", names, err)
		}
		if l.ID() != "id" || !l.TakenOver {
			t.Errorf("%v: the call goes on as %s, taken over: %t", names, l.ID(), l.TakenOver)
		}
	}
	// On AWS other processes may still run.
	s := &held{}
	if _, err := guard(s, "").Reserve(t.Context(), dedup.Claim{ID: "id", At: noon}); err != nil {
		t.Fatal(err)
	}
	if _, err := guard(s, "").Reserve(t.Context(), dedup.Claim{ID: "other", At: noon}); !errors.As(err, &waits) {
		t.Errorf("another process gets %v", err)
	}
}

// TestACallerThatHasGoneIsNoOutage: an open fallback must not go on when the
// caller's context has ended.
func TestACallerThatHasGoneIsNoOutage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := newGuard(&absent{}, dedup.Open, func(o *dedup.Options) {
		o.Counted = func(what string, _ int) { t.Errorf("counted %s", what) }
	})
	if _, err := g.Reserve(ctx, dedup.Claim{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutEntropyNoTokenIsMade(t *testing.T) {
	s := &absent{}
	g := dedup.New(s, dedup.Options{Now: time.Now, Entropy: strings.NewReader("short"), Log: slog.New(slog.DiscardHandler)})
	if _, err := g.Reserve(t.Context(), dedup.Claim{}); err == nil || s.calls > 0 {
		t.Errorf("got %v after %d calls", err, s.calls)
	}
}
