package queue

import (
	"fmt"
	"testing"
	"time"
)

func TestTheMessagesOfGroupsThatSendMuchAlternateAndOthersStandFirst(t *testing.T) {
	var order FairOrder
	now := 100 * time.Hour
	at := func(group string) time.Duration { return now - order.Offset(group, now) }
	var a, b []time.Duration
	for range 2_000 {
		a = append(a, at("a"))
	}
	now += 3 * step
	for range 2_000 {
		b = append(b, at("b"))
	}
	for i := range 900 {
		if !(a[i] < a[i+1] && a[i+3] <= b[i] && b[i] <= a[i+4]) {
			t.Fatalf("message %d of the second group stands at %s, beside %s to %s of the first, which came 1.8 s before", i, b[i], a[i+3], a[i+4])
		}
	}
	if a[1_999] != now-3*step || b[1_999] != now {
		t.Errorf("after 2,000 messages the last stand at %s and %s, want when they were sent", a[1_999], b[1_999])
	}
	for _, group := range []string{"", "c"} {
		if got, want := at(group), now-earliest; got != want {
			t.Errorf("a first message of the group %q stands at %s, want %s", group, got, want)
		}
	}
	now += earliest
	if got, want := at("a"), now-earliest; got != want {
		t.Errorf("10 minutes later the next stands at %s, want %s", got, want)
	}
}

// TestAFloodOfMessagesWithoutAGroupHoldsUpNobody: jobs of Sipher and claim checks have no sender.
// They are one group among the others.
func TestAFloodOfMessagesWithoutAGroupHoldsUpNobody(t *testing.T) {
	var order FairOrder
	now := 100 * time.Hour
	at := func(group string) time.Duration { return now - order.Offset(group, now) }
	var a, none []time.Duration
	for range 2_000 {
		a, none = append(a, at("a")), append(none, at(""))
	}
	for i := range a {
		if a[i] != none[i] {
			t.Fatalf("message %d without a group stands at %s, the one of an actor at %s", i, none[i], a[i])
		}
	}
	if got, want := at("b"), now-earliest; got != want {
		t.Errorf("the first message of another actor stands at %s, want %s", got, want)
	}
}

func TestTheGroupsThatAreRememberedHaveABound(t *testing.T) {
	var order FairOrder
	now := time.Duration(0)
	for i := range 3 * mostGroups {
		if i%100 == 0 {
			now += time.Millisecond
		}
		order.Offset(fmt.Sprint(i), now)
	}
	if n := len(order.last); n > mostGroups {
		t.Errorf("%d groups are remembered, want at most %d", n, mostGroups)
	}
	now += step
	order.Offset("later", now)
	if _, known := order.last["later"]; !known || len(order.last) > mostGroups {
		t.Errorf("a group that comes after the others is remembered: %t, of %d", known, len(order.last))
	}
}

// TestNoMessageThatIsDueIsPassedOver: the times in which messages became visible that are dated
// back follow each other without a gap, however often and seldom an engine asks.
func TestNoMessageThatIsDueIsPassedOver(t *testing.T) {
	var order FairOrder
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	last := time.Time{}
	for i, pause := range []time.Duration{0, 10 * time.Millisecond, 900 * time.Millisecond, time.Second, 5 * time.Second, time.Minute} {
		now = now.Add(pause)
		from, to, ok := order.Due(now)
		if want := pause == 0 || pause >= time.Second; ok != want {
			t.Fatalf("look %d: %t, want %t", i, ok, want)
		}
		if !ok {
			continue
		}
		if after := now.Add(-from); !last.IsZero() && !after.Equal(last) {
			t.Errorf("look %d begins at %s, and the one before ended at %s", i, after, last)
		}
		if last = now.Add(-to); to != overdue {
			t.Errorf("look %d ends %s ago, want %s", i, to, overdue)
		}
	}
	if _, _, ok := (*FairOrder)(nil).Due(now); ok {
		t.Error("a queue that is not fair dates a message back")
	}
}
