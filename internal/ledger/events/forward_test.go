package events_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"fedpost/internal/ledger/events"
)

// marks is an events.Marks in memory.
type marks struct {
	cursor  string
	version int
	err     error
}

func (m *marks) Mark(context.Context, string) (string, string, error) {
	if m.version == 0 {
		return "", "", m.err
	}
	return m.cursor, fmt.Sprint(m.version), m.err
}

func (m *marks) SetMark(_ context.Context, _, cursor, version string) (string, error) {
	if m.version > 0 && version != fmt.Sprint(m.version) || m.version == 0 && version != "" {
		return "", events.ErrChanged
	}
	m.cursor = cursor
	m.version++
	return fmt.Sprint(m.version), m.err
}

func (s *tape) EventsEnd(context.Context) (string, error) {
	p, err := s.Events(context.Background(), "", 1<<20)
	return p.Next, err
}

func TestEventsArePassedOnOnceAndInOrder(t *testing.T) {
	s, m := &tape{page: 100}, &marks{}
	var got []string
	down := error(nil)
	f := events.Forwarder{Store: s, Marks: m, Put: func(_ context.Context, all []events.Event) error {
		for _, e := range all {
			got = append(got, e.ID)
		}
		return down
	}}
	happen := func(n int) {
		for range n {
			s.all = append(s.all, events.Event{ID: fmt.Sprint(len(s.all))})
		}
	}
	run := func() error { return f.Run(t.Context()) }
	happen(3)
	if err := run(); err != nil || len(got) != 0 {
		t.Fatalf("%v: what was before its first run is passed on: %v", err, got)
	}
	happen(250)
	if err := run(); err != nil || len(got) != 250 || got[0] != "3" || got[249] != "252" {
		t.Fatalf("%v: %d", err, len(got))
	}
	if err := run(); err != nil || len(got) != 250 {
		t.Errorf("%v: passed on again: %d", err, len(got))
	}
	happen(2)
	down = errors.New("the bus is down")
	if err := run(); !errors.Is(err, down) {
		t.Errorf("error %v, want that of the bus", err)
	}
	down = nil
	if err := run(); err != nil || len(got) != 254 || got[253] != "254" {
		t.Errorf("%v: %d after an outage", err, len(got))
	}
	happen(1)
	f.Put = func(context.Context, []events.Event) error { m.version++; return nil } // another run is faster
	if err := run(); err != nil {
		t.Errorf("error %v, want none when another run is faster", err)
	}
}
