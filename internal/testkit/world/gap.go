package world

import (
	"context"

	"fedpost/internal/activity"
)

// gap holds the deliveries that may be sent a second time: a server had accepted them,
// but no record said so, when a run of a function with a broken call ended. Nothing can
// close this gap, because a server's answer and the record of the answer are two steps.
type gap struct {
	fired int
	sent  map[sent]bool
}

// sent is an activity at an inbox.
type sent struct {
	activity activity.ID
	inbox    string
}

// noteGap adds to the gap if a call broke since the last noteGap.
func (w *World) noteGap() {
	w.T.Helper()
	fired := w.plan.Fired()
	if fired == w.gap.fired {
		return
	}
	w.gap.fired = fired
	if w.gap.sent == nil {
		w.gap.sent = map[sent]bool{}
	}
	for id, inboxes := range w.Servers.Accepted() {
		recorded := w.delivered(id)
		for inbox := range inboxes {
			if !recorded[inbox] {
				w.gap.sent[sent{id, inbox}] = true
			}
		}
	}
}

// delivered lists the inboxes whose recipients are delivered according to the ledger.
func (w *World) delivered(id activity.ID) map[string]bool {
	w.T.Helper()
	ctx := context.Background()
	r, err := w.raw.Activity(ctx, id)
	if err != nil {
		w.T.Fatal(err)
	}
	chunks, err := w.raw.Chunks(ctx, r, 0, r.Chunks()-1)
	if err != nil {
		w.T.Fatal(err)
	}
	all := map[string]bool{}
	for _, c := range chunks {
		for p, rec := range c.Recipients {
			if rec.State == activity.Delivered {
				all[c.Targets[p].Inbox] = true
			}
		}
	}
	return all
}

// Doubles checks that a server accepted an activity a second time only if the first
// delivery was left in the gap, and never a third time. It returns the number of
// activities that were accepted twice.
func (w *World) Doubles() int {
	w.T.Helper()
	doubles := 0
	for id, inboxes := range w.Servers.Accepted() {
		for inbox, n := range inboxes {
			switch {
			case n < 2:
			case n == 2 && w.gap.sent[sent{id, inbox}]:
				doubles++
			default:
				w.T.Errorf("%s accepted %s %d times; left without a record by the fault: %t", inbox, id, n, w.gap.sent[sent{id, inbox}])
			}
		}
	}
	return doubles
}
