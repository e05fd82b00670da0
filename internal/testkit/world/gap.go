package world

import (
	"context"

	"fedpost/internal/activity"
)

// gap is what may be sent a second time: what a server had accepted, and no
// record told of, when the run of a function ended in which a call broke. It is
// the one gap that nothing can close, as a server's answer and our record of it
// are two steps.
type gap struct {
	fired int
	sent  map[sent]bool
}

// sent is an activity at an inbox.
type sent struct {
	activity activity.ID
	inbox    string
}

// noteGap adds to the gap, if a call broke since it was asked last.
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

// delivered lists the inboxes that the ledger has as delivered.
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

// Doubles checks that a server accepted a second request for the same thing only
// if the first was left in the gap, and never a third. It returns how many came
// twice.
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
