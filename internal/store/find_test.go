package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/memory"
)

// TestActivitiesOfOldListsAreFound: lists once had four partitions a day, in the order of
// senders.
func TestActivitiesOfOldListsAreFound(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	s := New(memory.New(clock, nil).Table(), clock)
	const frida, gus = "https://a.example/users/frida", "https://b.example/users/gus"
	put := func(id activity.ID, sender string, at time.Time) {
		data, err := activityPacking.pack(listedItem{ledger.Listed{Sender: sender}, millis(at)})
		if err != nil {
			t.Fatal(err)
		}
		key := table.Key{PK: fmt.Sprintf("F#%s#%d", at.Format(time.DateOnly), shard(sender, 4)), SK: senderPart(sender) + backwards(at) + "#" + string(id)}
		if err := s.t.PutAll(t.Context(), []table.Item{{Key: key, Data: data}}); err != nil {
			t.Fatal(err)
		}
	}
	put("old-yesterday", frida, now.Add(-24*time.Hour))
	put("old", frida, now.Add(-time.Hour))
	put("old-of-gus", gus, now.Add(-2*time.Hour))
	if err := s.ListActivities(t.Context(), []ledger.Listed{{ID: "new", Sender: frida, CreatedAt: now}}); err != nil {
		t.Fatal(err)
	}
	for sender, want := range map[string][]activity.ID{
		frida: {"new", "old", "old-yesterday"},
		gus:   {"old-of-gus"},
		"":    {"new", "old", "old-of-gus", "old-yesterday"},
	} {
		for _, limit := range []int{1, 10} {
			var got []activity.ID
			for cursor, more := "", true; more; more = cursor != "" {
				ls, next, err := s.FindActivities(t.Context(), ledger.Sought{Sender: sender}, cursor, limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range ls {
					got = append(got, l.ID)
				}
				cursor = next
			}
			if sender == "" { // the old lists are in the order of their shards
				slices.Sort(got[1:3])
			}
			if !slices.Equal(got, want) {
				t.Errorf("of %q, %d a page: %v, want %v", sender, limit, got, want)
			}
		}
	}
}
