package store_test

import (
	"errors"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/store"
)

// TestClaimsOfADeadProcessAreNotWaitedFor claims a chunk and a single target, "dies", and looks at
// them as the next process: once alone on the table, once not.
func TestClaimsOfADeadProcessAreNotWaitedFor(t *testing.T) {
	e := embedded(t, sqlite.Options{})
	shared := store.New(e.Table(), time.Now)
	dead, alone := shared.Alone("dead."), shared.Alone("alive.")
	id := activity.DerivedID(time.Now(), "claimed")
	record := ledger.Record{
		ID: id, Recipients: 1, Targets: 1, Chunk: 1, CreatedAt: time.Now(), Forget: time.Now().Add(time.Hour),
		Inline: []activity.Target{{Inbox: "https://a.example/inbox", Stands: 1}},
	}
	if err := shared.CreateActivity(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Minute)
	for _, position := range []int{message.Whole, 0} {
		u := message.Unit{Activity: id, Chunk: 7, Position: position}
		if position == 0 {
			u.Chunk = 8
		}
		k, err := dead.Inspect(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dead.Claim(t.Context(), u, k, "dead.1", until); err != nil {
			t.Fatal(err)
		}
		if k, err = shared.Inspect(t.Context(), u); err != nil || k.Claimed.IsZero() {
			t.Errorf("position %d: others see no claim: %+v, %v", position, k, err)
		}
		if _, err := shared.Claim(t.Context(), u, k, "other.1", until); !errors.Is(err, ledger.ErrClaimed) {
			t.Errorf("position %d: others take it: %v", position, err)
		}
		if k, err = alone.Inspect(t.Context(), u); err != nil || !k.Claimed.IsZero() || !k.Lapsed {
			t.Errorf("position %d: the next process sees %+v, %v", position, k, err)
		}
		if _, err = alone.Claim(t.Context(), u, k, "alive.1", until); err != nil {
			t.Errorf("position %d: the next process cannot take it: %v", position, err)
		}
		if k, err = alone.Inspect(t.Context(), u); err != nil || k.Claimed.IsZero() {
			t.Errorf("position %d: its own claim is not seen: %+v, %v", position, k, err)
		}
	}
}
