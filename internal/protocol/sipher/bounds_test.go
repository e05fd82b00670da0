package sipher_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

// asked counts our requests that begin with a text.
func (b *bed) asked(prefix string) int {
	n := 0
	for _, s := range b.net.Asked() {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// However many jobs wait for a server that shows no keys, the server is asked a
// few times a minute, and every job is tried again.
func TestAServerThatShowsNoKeysIsAskedABoundedNumberOfTimes(t *testing.T) {
	b := newBed(t)
	b.b.Discover(sipherpeer.Discovery{Status: 404})
	for range 600 {
		want{class: outcome.Retry, unattempted: true, tried: true, says: "answered 404"}.check(t, b.attempt(postJob(), 1))
		b.advance(time.Second)
	}
	if n, most := b.asked("GET "+urlB), int(10*time.Minute/peers.FailureAge); n > most || n < most/2 {
		t.Errorf("asked %d times in ten minutes, at most %d", n, most)
	}
	b.b.Discover(sipherpeer.Discovery{})
	b.advance(peers.FailureAge)
	delivered.check(t, b.attempt(postJob(), 2))
}

// A server that refuses every delivery does not get a registration with each.
func TestAServerThatDoesNotRegisterUsIsAskedABoundedNumberOfTimes(t *testing.T) {
	b := newBed(t)
	b.b.Discover(sipherpeer.Discovery{RefuseRegistration: true})
	for range 600 {
		want{class: outcome.Retry, says: "400"}.check(t, b.attempt(postJob(), 1))
		b.advance(time.Second)
	}
	if n, most := b.asked("POST "+urlB+"/discover"), 10*peers.AnnounceRate+peers.AnnounceBurst+1; n > most || n < most/2 {
		t.Errorf("asked to register us %d times in ten minutes, at most %d", n, most)
	}
}

func TestEmergencySweepsAreBoundedInWidthAndNumber(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	for i := range 3 * peers.SweepWidth {
		url := fmt.Sprintf("https://s%d.example", i)
		b.insert(b.p, func(s *peers.Server) {
			s.URL, s.IsHealthy, s.Reason, s.Stranger = url, false, peers.TimedOut, i >= peers.SweepWidth
		})
		b.net.Fail(url, dialError(errRefused))
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(postJob(), 1)) })
	}
	all.Wait()
	if n := b.asked("GET "); n != peers.SweepWidth {
		t.Errorf("%d servers swept for 20 deliveries", n)
	}
	for i := range peers.SweepWidth {
		if b.asked(fmt.Sprintf("GET https://s%d.example/", i)) != 1 {
			t.Errorf("a server we know was left out for a stranger: %d", i)
		}
	}
	for range 60 { // ten minutes
		b.attempt(postJob(), 1)
		b.advance(10 * time.Second)
	}
	if n, most := b.asked("GET https://s0.example/"), int(10*time.Minute/peers.SweepEvery)+1; n > most || n < most/2 {
		t.Errorf("one server was swept %d times in ten minutes, at most %d", n, most)
	}
}
