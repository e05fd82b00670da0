package sipher_test

import (
	"errors"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

// hung makes B a server that hung a moment ago.
func hung(b *bed) {
	b.t.Helper()
	b.acquainted(b.b)
	if err := b.store.MarkUnhealthy(b.t.Context(), urlB, peers.TimedOut, b.Now()); err != nil {
		b.t.Fatal(err)
	}
}

func TestAServerThatHangsIsTriedOnceInTwoSeconds(t *testing.T) {
	b := newBed(t)
	hung(b)
	b.net.Fail(urlB, &timeout{})
	if o := b.attempt(postJob(), 1); o.Try == outcome.Waiting || o.Try != outcome.Made || o.Reason != outcome.Timeout {
		t.Errorf("the first: %+v", o)
	}
	o := b.attempt(postJob(), 1)
	if o.Try != outcome.Waiting || !o.RetryAfter.Equal(b.Now().Add(2*time.Second)) || len(b.net.Asked()) != 1 {
		t.Errorf("the second: %+v, asked %v", o, b.net.Asked())
	}
	b.advance(2 * time.Second)
	if o := b.attempt(postJob(), 1); o.Try == outcome.Waiting {
		t.Errorf("two seconds later: %+v", o)
	}
}

type timeout struct{}

func (*timeout) Error() string { return "too slow" }
func (*timeout) Timeout() bool { return true }

func TestAServerThatAnswersNoLongerHangs(t *testing.T) {
	for _, behavior := range []sipherpeer.Behavior{{}, {Status: 500}} {
		b := newBed(t)
		hung(b)
		b.b.Behave(behavior)
		b.attempt(postJob(), 1)
		for range 3 {
			if o := b.attempt(followJob(), 1); o.Try == outcome.Waiting {
				t.Errorf("the outcome is %+v, want one that does not wait", o)
			}
		}
		if s := b.server(urlB); !s.NextTryAt.IsZero() || s.IsHealthy {
			t.Errorf("the server is %+v, want unhealthy, and no next try", s)
		}
	}
}

func TestAnOutageWhileATryIsReservedHoldsNoDeliveryBack(t *testing.T) {
	for _, verb := range []string{"ReserveTry", "MarkAnswering"} {
		b := newBed(t)
		hung(b)
		broken := sipherWith(b, &outage{Store: b.store, verb: verb, err: errors.New("table is down")})
		delivered.check(t, broken.Attempt(t.Context(), postJob(), target(postJob()), 1))
	}
}

func TestNothingThatAnEarlierRowRefusesReservesATry(t *testing.T) {
	b := newBed(t)
	hung(b)
	block(b, urlB)
	b.attempt(postJob(), 1)
	if s := b.server(urlB); s.NextTryAt.After(b.Now()) {
		t.Errorf("the server is %+v, want no next try in the future", s)
	}
	if err := b.store.Unblock(t.Context(), urlB); err != nil {
		t.Fatal(err)
	}
	delivered.check(t, b.attempt(postJob(), 1))
}
