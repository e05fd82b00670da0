package store_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/message"
	"fedpost/internal/servers/parking"
	"fedpost/internal/store"
	"fedpost/internal/testkit/property"
)

// TestHeadsAreTheFirstOfEachGroupAndAllOthers compares a lot read by heads, in
// pages of any size, with what was parked.
func TestHeadsAreTheFirstOfEachGroupAndAllOthers(t *testing.T) {
	e := embedded(t, sqlite.Options{})
	s, now, lot := store.New(e.Table(), time.Now), time.Now().UTC(), 0
	property.Check(t, func(t *rapid.T) {
		lot++
		key := fmt.Sprint("host:h", lot, ".example")
		first, loose := map[string]string{}, map[activity.ID]bool{}
		var ps []parking.Parked
		for i := range rapid.IntRange(0, 40).Draw(t, "parked") {
			id := activity.DerivedID(now, fmt.Sprint(lot, i))
			p := parking.Parked{
				Key: key, Activity: activity.Activity{ID: id, Body: "{}", CreatedAt: now}, Since: now, GiveUp: now.Add(time.Hour),
				Delivery: message.Delivery{Targets: []activity.Target{{Inbox: "https://a.example/"}}, Generation: 1},
			}
			if g := rapid.IntRange(0, 4).Draw(t, "group"); g > 0 {
				p.Group, p.Sequence = fmt.Sprint("group ", g), fmt.Sprintf("%024d", rapid.IntRange(0, 99).Draw(t, "sequence"))
				if f, ok := first[p.Group]; !ok || p.Sequence < f {
					first[p.Group] = p.Sequence
				}
			} else {
				loose[id] = true
			}
			ps = append(ps, p)
		}
		if err := s.Park(t.Context(), ps); err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(1, 10).Draw(t, "limit")
		seen := map[string]bool{}
		for n := range parking.Shards {
			for cursor := ""; ; {
				page, next, err := s.Heads(t.Context(), key, n, cursor, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("a page of %d, %v", len(page), err)
				}
				for _, p := range page {
					switch {
					case p.Group == "" && !loose[p.Activity.ID]:
						t.Fatalf("%s was read twice, or never parked", p.Activity.ID)
					case p.Group == "":
						delete(loose, p.Activity.ID)
					case seen[p.Group] || p.Sequence != first[p.Group]:
						t.Fatalf("%s of %s, want %s, once", p.Sequence, p.Group, first[p.Group])
					}
					seen[p.Group] = true
				}
				if cursor = next; cursor == "" {
					break
				}
			}
		}
		if len(loose) > 0 {
			t.Fatalf("%d were not read", len(loose))
		}
		for g, want := range first {
			ps, _, err := s.ParkedOf(t.Context(), key, g, "", 1)
			if err != nil || len(ps) != 1 || ps[0].Sequence != want || !seen[g] {
				t.Fatalf("first of %s: %+v, %v; read: %v", g, ps, err, seen[g])
			}
		}
		if ps, next, err := s.ParkedOf(t.Context(), key, "group 9", "", 1); len(ps) > 0 || next != "" || err != nil {
			t.Fatalf("a group that is not there: %v, %q, %v", ps, next, err)
		}
	})
}
