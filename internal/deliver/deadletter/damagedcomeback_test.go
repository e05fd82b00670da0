package deadletter_test

import (
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/world"
)

// damage overwrites the dead letter of an activity, or the parts of its body.
func (w *comeback) damage(n deadletter.Name, body bool) {
	w.T.Helper()
	pks := []string{"A#" + string(n.Activity)}
	if !body {
		pks = nil
		for shard := range 4 {
			pks = append(pks, "D#"+n.Day+"#"+string(rune('0'+shard)))
		}
	}
	prefix := string(n.Activity) + "#"
	if body {
		prefix = "BODY#"
	}
	damaged := 0
	for _, pk := range pks {
		r := table.Prefix(pk, prefix)
		r.Limit = 100
		list, _, err := w.Engine.Table().Query(w.T.Context(), r)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, it := range list {
			it.Data = []byte("rubbish")
			if err := w.Engine.Table().PutAll(w.T.Context(), []table.Item{it}); err != nil {
				w.T.Fatal(err)
			}
			damaged++
		}
	}
	if damaged == 0 {
		w.T.Fatalf("nothing of %s was found", n)
	}
}

// TestADamagedDeadLetterStopsTheRevivalOfNoOther, nor lists, retries and removals.
func TestADamagedDeadLetterStopsTheRevivalOfNoOther(t *testing.T) {
	for _, body := range []bool{false, true} {
		name := "letter"
		if body {
			name = "body"
		}
		t.Run(name, func(t *testing.T) {
			w := newComeback(t, world.Options{}, for60(20*oneDay))
			ids := w.send(5)
			big := w.Activity("Create")
			big.Body = `{"x":"` + noise(5000) + `"}`
			ids = append(ids, w.Send(big, downInbox, "https://down.example/2", "https://down.example/3"))
			w.Run(9*oneDay, 10*time.Minute)
			letters := w.letters()
			if len(letters) != 8 {
				t.Fatalf("%d dead letters", len(letters))
			}
			bad, together := letters[0].Name(), []deadletter.DeadLetter{}
			for _, l := range letters {
				if (l.Activity.ID == ids[5]) == body {
					bad = l.Name()
				}
				if l.Activity.ID == ids[5] {
					together = append(together, l)
				}
			}
			// Those that die together have their body apart.
			if err := w.Raw().AddDeadLetters(t.Context(), together); err != nil {
				t.Fatal(err)
			}
			w.damage(bad, body)
			lost := map[bool]int{false: 1, true: 3}[body]
			if got := len(w.letters()); got != 8 {
				t.Errorf("a list by host has %d dead letters", got)
			}
			byDay, _, err := w.Raw().DeadLetters(t.Context(), deadletter.Filter{Activity: bad.Activity}, "", 100)
			if err != nil || len(byDay) != lost || byDay[0].Damaged == nil || byDay[0].Activity.ID != bad.Activity {
				t.Fatalf("a list by activity has %+v, %v", byDay, err)
			}
			w.Log.Reset()
			w.Run(13*oneDay, 10*time.Minute)
			got := w.states(ids)
			if got[activity.Delivered] != 8-lost || got[activity.Dead] != lost {
				t.Errorf("after the server was back: %v", got)
			}
			if n := strings.Count(w.Log.String(), "a dead letter is damaged"); n != lost {
				t.Errorf("logged %d times", n)
			}
			if s := w.server(); s.Parked || !s.ReviveUntil.IsZero() {
				t.Errorf("the server waits for what is never revived: %s", world.Brief(s))
			}
			left := w.letters()
			if len(left) != lost || left[0].Damaged == nil || left[0].Host() != "down.example" {
				t.Fatalf("left %+v", left)
			}
			if err := w.Raw().RemoveDeadLetters(t.Context(), left); err != nil || len(w.letters()) != 0 {
				t.Errorf("%v, and %d are left", err, len(w.letters()))
			}
		})
	}
}

// TestWhatIsNotRevivedIsLookedAtOnce: dead deliveries that were cancelled would be read again
// by each step of each recovery, before those that are revived.
func TestWhatIsNotRevivedIsLookedAtOnce(t *testing.T) {
	w := newComeback(t, world.Options{}, [2]time.Duration{20 * oneDay, 21 * oneDay})
	ids := w.send(7)
	w.Run(9*oneDay, 10*time.Minute)
	for _, id := range ids[:6] {
		if err := w.Raw().CancelActivity(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(12*oneDay, 10*time.Minute)
	if got := w.states(ids[6:]); got[activity.Delivered] != 1 {
		t.Errorf("after the server was back: %v", got)
	}
	ls, next, err := w.Raw().Revivable(t.Context(), "down.example", false, world.Start, "", 100)
	if err != nil || len(ls) != 0 || next != "" {
		t.Errorf("to be looked at again: %+v, %q, %v", ls, next, err)
	}
	if got := len(w.letters()); got != 6 {
		t.Errorf("%d dead letters are left", got)
	}
	for _, l := range w.letters() {
		if l.Activity.Body == "" {
			t.Errorf("%s has lost its body", l.Name())
		}
	}
}
