package events_test

import (
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/ledger/events"
)

// TestAReaderWhoWaitsDoesNotLookForEachEventOfAStorm: each look reads all logs, and 64 readers
// who wait for an event of another type would take the processors from the deliveries.
func TestAReaderWhoWaitsDoesNotLookForEachEventOfAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, notifier := &tape{}, new(events.Notifier)
		f := events.Feed{Store: s, Notifier: notifier}
		began := time.Now()
		go func() {
			for n := range 10_000 { // an event each millisecond
				time.Sleep(time.Millisecond)
				kind := events.RecipientDead
				if n == 7_000 {
					kind = events.ServerGone
				}
				s.mu.Lock()
				s.all = append(s.all, of(kind)...)
				s.mu.Unlock()
				notifier.Notify()
			}
		}()
		p, err := f.Read(t.Context(), events.Query{Limit: 10, Wait: 20 * time.Second, Kinds: []events.Kind{events.ServerGone}})
		took := time.Since(began)
		if err != nil || len(p.Events) != 1 || took < 7*time.Second || took > 8*time.Second {
			t.Errorf("%+v, %v after %v", p, err, took)
		}
		s.mu.Lock()
		looks := s.looks
		s.mu.Unlock()
		if looks > 50 {
			t.Errorf("%d looks in %v", looks, took)
		}
		time.Sleep(4 * time.Second) // the storm ends
	})
}
