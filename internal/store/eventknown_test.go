package store

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/testkit/memory"
)

// Other servers choose how many deliveries fail.
func TestTheEventsThatAProcessRemembersAreBounded(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	s := New(memory.New(func() time.Time { return now }, nil).Table(), func() time.Time { return now })
	most, n := 0, 0
	for range mostKnown/1000 + 2 {
		var ends []events.End
		for range 1000 {
			r := ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, Position: n, State: activity.Dead, UpdatedAt: now}
			if end, ok := events.EndOf("01J00000000000000000000000", events.About{}, r); ok {
				ends = append(ends, end)
			}
			n++
		}
		if err := s.AppendEnds(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
		known := 0
		for _, l := range s.logs {
			known = max(known, len(l.known.known))
		}
		most = max(most, known)
		now = now.Add(time.Second)
	}
	if most == 0 || most > mostKnown {
		t.Errorf("%d of %d events of a log are remembered, at most %d", most, n, mostKnown)
	}
}
