package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

const fine = "https://fine.example/inbox"

func (w *afterlife) retrier() deadletter.Retrier {
	return deadletter.Retrier{Ledger: w.Store, Reviver: w.reviver}
}

var both = deadletter.Choice{Failed: true, Dead: true}

// retry retries all that c chooses.
func (w *afterlife) retry(id activity.ID, c deadletter.Choice) (done deadletter.Retried) {
	w.T.Helper()
	done, err := w.retrier().Retry(context.Background(), id, c, "", w.Clock.Now().Add(time.Minute))
	if err != nil || done.Next != "" {
		w.T.Fatalf("retried %+v, %v", done, err)
	}
	return done
}

// repent lets the server that refuses accept.
func (w *afterlife) repent() { w.Servers.Script("refuses.example", world.Answers(202)) }

func TestFailedAndDeadRecipientsGetFreshAttemptsOnRequest(t *testing.T) {
	for _, key := range []string{"", "thread"} {
		w := newAfterlife(t, world.Options{})
		mend := w.sicken()
		a := w.Activity("Create")
		a.OrderingKey = key
		id := w.Send(a, sickInbox, noInbox, fine)
		w.pass(10 * time.Minute)
		w.Clock.Advance(8 * 24 * time.Hour) // too old, had they not been retried
		w.Expect(id, map[string]activity.State{sickInbox: activity.Dead, noInbox: activity.Failed, fine: activity.Delivered})
		for round, want := range []map[string]activity.State{
			{sickInbox: activity.Dead, noInbox: activity.Failed, fine: activity.Delivered},
			{sickInbox: activity.Dead, noInbox: activity.Dead, fine: activity.Delivered},
			{sickInbox: activity.Delivered, noInbox: activity.Delivered, fine: activity.Delivered},
		} {
			switch round {
			case 1:
				w.Servers.Script("refuses.example", world.Answers(500))
			case 2:
				mend()
				w.repent()
			}
			if got := w.retry(id, both); got.Sent != 2 || got.Unavailable != 0 {
				t.Errorf("round %d: retried %+v", round, got)
			}
			w.pass(10 * time.Minute)
			w.Expect(id, want)
		}
		if got := w.retry(id, both); got != (deadletter.Retried{}) {
			t.Errorf("what is delivered is retried: %+v", got)
		}
		if got := w.Servers.Accepted()[id]; got[sickInbox] != 1 || got[noInbox] != 1 || got[fine] != 1 {
			t.Errorf("accepted %v", got)
		}
		if ls := w.dead(deadletter.Filter{}); len(ls) != 0 {
			t.Errorf("dead letters left: %+v", ls)
		}
	}
}

func TestARetryTakesOnlyWhatIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		choice deadletter.Choice
		want   map[string]activity.State
	}{
		"failed":             {deadletter.Choice{Failed: true}, map[string]activity.State{sickInbox: activity.Dead, noInbox: activity.Delivered}},
		"dead":               {deadletter.Choice{Dead: true}, map[string]activity.State{sickInbox: activity.Delivered, noInbox: activity.Failed}},
		"an inbox":           {deadletter.Choice{Failed: true, Dead: true, Inboxes: map[string]bool{sickInbox: true}}, map[string]activity.State{sickInbox: activity.Delivered, noInbox: activity.Failed}},
		"another inbox":      {deadletter.Choice{Failed: true, Dead: true, Inboxes: map[string]bool{fine: true}}, map[string]activity.State{sickInbox: activity.Dead, noInbox: activity.Failed}},
		"failed of an inbox": {deadletter.Choice{Failed: true, Inboxes: map[string]bool{sickInbox: true}}, map[string]activity.State{sickInbox: activity.Dead, noInbox: activity.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAfterlife(t, world.Options{})
			mend := w.sicken()
			id := w.Send(w.Activity("Create"), sickInbox, noInbox)
			w.pass(10 * time.Minute)
			mend()
			w.repent()
			w.retry(id, c.choice)
			w.pass(10 * time.Minute)
			w.Expect(id, c.want)
		})
	}
}

func TestRetryingTwiceAtOnceSendsOnce(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	w.sicken()
	id := w.Send(w.Activity("Create"), noInbox)
	w.pass(10 * time.Minute)
	before := len(w.Servers.Got())
	for _, want := range []int{1, 0, 0} {
		if got := w.retry(id, both); got != (deadletter.Retried{Sent: want}) {
			t.Errorf("retried %+v, want %d", got, want)
		}
	}
	if d, err := w.Engine.Queue(queue.Normal).Depth(t.Context()); err != nil || d.Visible+d.Delayed != 1 {
		t.Errorf("on the queue: %+v, %v", d, err)
	}
	if r := w.States(id)[noInbox]; r.State != activity.Queued || r.Attempts != 0 {
		t.Errorf("before it is taken up it is %s after %d attempts", r.State, r.Attempts)
	}
	w.pass(10 * time.Minute)
	w.Expect(id, map[string]activity.State{noInbox: activity.Failed})
	if n := len(w.Servers.Got()) - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestALateMessageDoesNotReviveWhatFailed: a spot that a dead worker has left behind is
// of a later generation than the refusal that followed.
func TestALateMessageDoesNotReviveWhatFailed(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	w.sicken()
	a := w.Activity("Create")
	id := w.Send(a, noInbox)
	w.pass(time.Minute)
	before := len(w.Servers.Got())
	late := message.Delivery{Position: 0, Targets: []activity.Target{{Inbox: noInbox, Stands: 1}}, Generation: 3}
	kept, err := w.Store.Content(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	m, err := late.Queued(kept, message.Sending{Queue: queue.Normal, Can: w.Engine.Queue(queue.Normal).Capabilities()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Engine.Queue(queue.Normal).Send(t.Context(), m.Message); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if n := len(w.Servers.Got()) - before; n != 0 {
		t.Errorf("%d requests after the refusal", n)
	}
}

func TestARetryOfWhatIsOverIsRefused(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	w.sicken()
	id := w.Send(w.Activity("Create"), noInbox, sickInbox)
	w.pass(time.Minute)
	end := w.Clock.Now().Add(time.Minute)
	for name, c := range map[string]struct {
		id     activity.ID
		cursor string
		want   error
	}{
		"unknown":         {id1, "", ledger.ErrNotFound},
		"no cursor":       {id, "7", deadletter.ErrBadCursor},
		"a cursor beyond": {id, "chunk.1", deadletter.ErrBadCursor},
		"a negative one":  {id, "chunk.-1", deadletter.ErrBadCursor},
	} {
		if done, err := w.retrier().Retry(t.Context(), c.id, both, c.cursor, end); !errors.Is(err, c.want) || done.Sent != 0 {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
	if err := w.Store.CancelActivity(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if done, err := w.retrier().Retry(t.Context(), id, both, "", end); !errors.Is(err, deadletter.ErrCancelled) || done.Sent != 0 {
		t.Errorf("cancelled: %+v, %v", done, err)
	}
	a := w.Activity("Create")
	a.ExpiresAt = w.Clock.Now().Add(time.Hour)
	expired := w.Send(a, noInbox)
	w.pass(time.Minute)
	w.Clock.Advance(time.Hour)
	if done, err := w.retrier().Retry(t.Context(), expired, both, "", end); !errors.Is(err, deadletter.ErrExpired) || done.Sent != 0 {
		t.Errorf("expired: %+v, %v", done, err)
	}
}

func TestARetryOfManyStopsInTimeAndGoesOn(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	w.Servers.Script("refuses.example", world.Answers(404))
	var all []string
	for n := range 1101 { // 23 chunks
		all = append(all, fmt.Sprintf("https://refuses.example/users/%d/inbox", n))
	}
	id := w.Send(w.Activity("Create"), all...)
	w.pass(2 * time.Minute)
	sum, pages := 0, 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		done, err := w.retrier().Retry(t.Context(), id, both, cursor, w.Clock.Now()) // no time at all
		if err != nil {
			t.Fatal(err)
		}
		sum, cursor = sum+done.Sent, done.Next
	}
	if sum != len(all) || pages != 2 {
		t.Errorf("%d retried on %d pages", sum, pages)
	}
	w.repent()
	w.pass(2 * time.Minute)
	if got := w.Servers.Accepted()[id]; len(got) != len(all) {
		t.Errorf("%d accepted", len(got))
	}
}

func TestADroppedDeadLetterIsUnavailable(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	w.sicken()
	id := w.Send(w.Activity("Create"), sickInbox)
	w.pass(10 * time.Minute)
	for _, l := range w.dead(deadletter.Filter{}) {
		if err := w.Store.RemoveDeadLetters(t.Context(), []deadletter.DeadLetter{l}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.retry(id, both); got.Sent != 0 || got.Unavailable != 1 {
		t.Errorf("retried %+v", got)
	}
}

// TestARetryIsSafeWhateverCallFails breaks every call of a life in which a recipient
// refuses, is retried and then accepts.
func TestARetryIsSafeWhateverCallFails(t *testing.T) {
	var doubles atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d requests were sent twice, each in the gap between an answer and its record", doubles.Load())
	})
	engines.Sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
		w := newAfterlife(t, world.Options{Engine: e, Plan: p})
		mend := w.sicken()
		id := w.Send(w.Activity("Create"), sickInbox, noInbox, fine)
		w.pass(15 * time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Dead, noInbox: activity.Failed, fine: activity.Delivered})
		mend()
		w.repent()
		w.insist(p, func() error {
			_, err := w.retrier().Retry(context.Background(), id, both, "", w.Clock.Now().Add(time.Minute))
			return err
		})
		w.pass(15 * time.Minute)
		w.Expect(id, map[string]activity.State{sickInbox: activity.Delivered, noInbox: activity.Delivered, fine: activity.Delivered})
		if ls := w.dead(deadletter.Filter{}); len(ls) != 0 {
			t.Errorf("dead letters left: %+v", ls)
		}
		doubles.Add(int64(w.Doubles()))
	})
}
