package ledger_test

import (
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/property"
)

func TestMergeBelievesWhatIsMostCertain(t *testing.T) {
	r := func(s activity.State, generation int) ledger.Recipient {
		return ledger.Recipient{State: s, Generation: generation}
	}
	for _, c := range []struct {
		name       string
		chunk, own ledger.Recipient
		want       ledger.Recipient
	}{
		{"its own account follows the chunk's", r(activity.Retrying, 1), r(activity.Parked, 1), r(activity.Parked, 1)},
		{"a delivery by the chunk is a fact", r(activity.Delivered, 0), r(activity.Dead, 7), r(activity.Delivered, 7)},
		{"a delivery by itself is a fact", r(activity.Failed, 0), r(activity.Delivered, 0), r(activity.Delivered, 0)},
		{"the chunk's final state stands", r(activity.Failed, 0), r(activity.Retrying, 3), r(activity.Failed, 3)},
		{"its own final state stands", r(activity.Retrying, 4), r(activity.Expired, 1), r(activity.Expired, 4)},
		{"a dead one was revived", r(activity.Dead, 1), r(activity.Retrying, 2), r(activity.Retrying, 2)},
		{"a dead one was not revived", r(activity.Dead, 1), r(activity.Retrying, 1), r(activity.Dead, 1)},
		{"a dead one was sent again by the chunk", r(activity.Retrying, 2), r(activity.Dead, 1), r(activity.Retrying, 2)},
		{"refused is more certain than dead", r(activity.Failed, 0), r(activity.Dead, 3), r(activity.Failed, 3)},
		{"a failed one was retried on request", r(activity.Failed, 1), r(activity.Retrying, 10_000), r(activity.Retrying, 10_000)},
		{"a failed one was not retried", r(activity.Failed, 10_000), r(activity.Retrying, 10_003), r(activity.Failed, 10_003)},
		{"a retried one died", r(activity.Failed, 0), r(activity.Dead, 10_002), r(activity.Dead, 10_002)},
		{"a retried one was retried again", r(activity.Failed, 0), r(activity.Failed, 20_000), r(activity.Failed, 20_000)},
		{"a late delivery by the chunk is a fact after a retry, too", r(activity.Delivered, 0), r(activity.Failed, 10_000), r(activity.Delivered, 10_000)},
		{"the later generation counts", r(activity.Retrying, 2), r(activity.Parked, 1), r(activity.Retrying, 2)},
	} {
		if got := ledger.Merge(c.chunk, c.own); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestMergeNeverForgetsADeliveryOrAGeneration(t *testing.T) {
	states := []activity.State{
		activity.Queued, activity.Retrying, activity.Parked, activity.Delivered, activity.Failed,
		activity.Dead, activity.Expired, activity.Redundant, activity.Superseded, activity.Cancelled,
	}
	one := rapid.Custom(func(t *rapid.T) ledger.Recipient {
		return ledger.Recipient{State: rapid.SampledFrom(states).Draw(t, "state"), Generation: rapid.SampledFrom([]int{0, 1, 2, 3, 10_000, 10_001, 20_000}).Draw(t, "generation")}
	})
	property.Check(t, func(t *rapid.T) {
		a, b := one.Draw(t, "chunk"), one.Draw(t, "own")
		got := ledger.Merge(a, b)
		if (a.State == activity.Delivered || b.State == activity.Delivered) && got.State != activity.Delivered {
			t.Errorf("%s and %s merged to %s, want delivered", a.State, b.State, got.State)
		}
		if got.State != a.State && got.State != b.State {
			t.Errorf("merged to %s, which neither says", got.State)
		}
		if got.Generation != max(a.Generation, b.Generation) {
			t.Errorf("merged to generation %d", got.Generation)
		}
		if swapped := ledger.Merge(b, a); swapped.State.Final() != got.State.Final() {
			t.Errorf("final one way only: %s and %s", got.State, swapped.State)
		}
	})
}
