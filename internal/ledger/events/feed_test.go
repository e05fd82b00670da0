package events_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/ledger/events"
)

// tape is a feed in memory, whose cursors are lengths.
type tape struct {
	events.Store
	mu    sync.Mutex
	all   []events.Event
	looks int
	page  int // the most that a page has
	err   error
}

func (s *tape) Events(_ context.Context, after string, limit int) (events.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.page > 0 {
		limit = min(limit, s.page)
	}
	from := len(after)
	to := min(len(s.all), from+limit)
	return events.Page{Events: s.all[from:to], Next: strings.Repeat("x", to), More: to < len(s.all)}, s.err
}

func of(kinds ...events.Kind) (all []events.Event) {
	for _, k := range kinds {
		all = append(all, events.Event{Kind: k})
	}
	return all
}

func TestAReaderWaitsForTheFirstEvent(t *testing.T) {
	for _, notifies := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s, notifier := &tape{}, new(events.Notifier)
			f := events.Feed{Store: s, Notifier: notifier}
			time.AfterFunc(7*time.Second+time.Millisecond, func() {
				s.mu.Lock()
				s.all = of(events.RecipientGone)
				s.mu.Unlock()
				if notifies {
					notifier.Notify()
				}
			})
			p, err := f.Read(t.Context(), events.Query{Limit: 10, Wait: 20 * time.Second})
			took := time.Since(began)
			if err != nil || len(p.Events) != 1 || p.Next != "x" {
				t.Errorf("the page is %+v, error %v; want one event and the cursor x", p, err)
			}
			if want := 8 * time.Second; notifies && took > 7*time.Second+time.Millisecond || took > want {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestAReaderWaitsNoLongerThanAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &tape{all: of(events.RecipientDead)}
		f := events.Feed{Store: s}
		p, err := f.Read(t.Context(), events.Query{Limit: 10, Wait: 5 * time.Second, Kinds: []events.Kind{events.RecipientGone}})
		if took := time.Since(began); err != nil || len(p.Events) != 0 || p.Next != "x" || took != 5*time.Second {
			t.Errorf("%+v, %v after %v", p, err, took)
		}
		if s.looks > 6 {
			t.Errorf("%d looks in 5 s", s.looks)
		}
		notifier := new(events.Notifier)
		f.Notifier = notifier
		began = time.Now()
		time.AfterFunc(time.Second, notifier.Stop)
		if _, err := f.Read(t.Context(), events.Query{Limit: 10, After: "x", Wait: 20 * time.Second}); err != nil || time.Since(began) != time.Second {
			t.Errorf("a stop ends the wait after %v, %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began, f.Notifier = time.Now(), nil
		if _, err := f.Read(ctx, events.Query{Limit: 10, After: "x", Wait: 20 * time.Second}); err != nil || time.Since(began) != time.Second {
			t.Errorf("a reader that leaves ends the wait after %v, %v", time.Since(began), err)
		}
	})
}

func TestAFilterPassesOverWhatItDoesNotWant(t *testing.T) {
	s := &tape{page: 10}
	for range 3 {
		for range 95 {
			s.all = append(s.all, of(events.RecipientDead)...)
		}
		s.all = append(s.all, of(events.ServerGone)...)
	}
	p, err := events.Feed{Store: s}.Read(t.Context(), events.Query{Limit: 2, Kinds: []events.Kind{events.ServerGone}})
	if err != nil || len(p.Events) != 2 || !p.More || len(p.Next) != 200 { // what else was read is passed over
		t.Errorf("%d events, cursor at %d, %v", len(p.Events), len(p.Next), err)
	}
	for range 200 { // more than one call passes over
		s.all = append(s.all, of(make([]events.Kind, 50)...)...)
	}
	s.all = append(s.all, of(events.ServerGone)...)
	p, err = events.Feed{Store: s}.Read(t.Context(), events.Query{After: p.Next, Limit: 2, Kinds: []events.Kind{events.ServerGone}, Wait: time.Hour})
	if err != nil || len(p.Events) != 1 || !p.More {
		t.Errorf("%d events, more: %v, %v", len(p.Events), p.More, err)
	}
	s.err = errors.New("down")
	if _, err := (events.Feed{Store: s}).Read(t.Context(), events.Query{Limit: 2}); !errors.Is(err, s.err) {
		t.Errorf("error %v", err)
	}
}

// TestAReaderOfOneEventCostsNoReadForEachThatIsPassedOver: a look reads all logs, and thousands of
// looks take longer than a request may.
func TestAReaderOfOneEventCostsNoReadForEachThatIsPassedOver(t *testing.T) {
	s := &tape{}
	for range 4000 {
		s.all = append(s.all, of(events.RecipientDead)...)
	}
	s.all = append(s.all, of(events.ServerGone, events.ServerGone, events.RecipientDead, events.ServerGone)...)
	q := events.Query{Limit: 1, Kinds: []events.Kind{events.ServerGone}}
	for i, want := range []struct{ events, next int }{{1, 4001}, {1, 4003}, {1, 4004}, {0, 4004}} {
		p, err := events.Feed{Store: s}.Read(t.Context(), q)
		if err != nil || len(p.Events) != want.events || len(p.Next) != want.next || p.More != (want.next < len(s.all)) {
			t.Errorf("page %d: %d events, cursor at %d, more: %v, %v", i, len(p.Events), len(p.Next), p.More, err)
		}
		q.After = p.Next
	}
	if s.looks > 20 {
		t.Errorf("%d looks", s.looks)
	}
}
