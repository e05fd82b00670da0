package deadletter_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// TestADeadLetterWrittenAgainIsListedOnce: a worker writes a dead letter that is to be revived, and
// dies; who repeats its work finds the server back, and writes the letter without revival.
func TestADeadLetterWrittenAgainIsListedOnce(t *testing.T) {
	w := newComeback(t, world.Options{})
	a := w.Activity("Create")
	target := activity.Target{Inbox: downInbox, Stands: 1}
	l := deadletter.DeadLetter{
		Activity: a, Delivery: message.Delivery{Targets: []activity.Target{target}, Generation: 1, Revive: w.Now().Add(time.Hour)},
		Last: ledger.Recipient{Target: target, State: activity.Dead, UpdatedAt: w.Now()}, Reason: "age", Died: w.Now(), Forget: w.Now().Add(oneDay),
	}
	again := l
	again.Delivery.Revive = time.Time{}
	for _, l := range []deadletter.DeadLetter{l, again} {
		if err := w.Raw().AddDeadLetters(t.Context(), []deadletter.DeadLetter{l}); err != nil {
			t.Fatal(err)
		}
	}
	if ls := w.letters(); len(ls) != 1 {
		t.Errorf("listed %d times", len(ls))
	}
}
