// Package intake turns a received message into work that is known to be sound, or ends it.
//
// A queue hands out what was put on it, by whichever version of fedpost, as often as it
// likes. So a message may be unreadable, not due yet, about to be dropped by its queue, or
// about an activity that has no record, because the table was down when it was accepted.
// What comes after this package knows none of that.
package intake

import (
	"context"
	"errors"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
)

// Receive reads a message. If there is nothing left to be done, work is nil and the
// disposition is the message's.
func (in *Intake) Receive(ctx context.Context, from queue.Name, m queue.Received) (work *Work, d Disposition, err error) {
	w := &Work{From: from, Received: m}
	w.Message, err = message.Decode(m.Body)
	switch {
	case errors.Is(err, message.ErrNewer):
		d, err = in.Reject(ctx, from, m, "newer", err)
		return nil, d, err
	case err != nil:
		d, err = in.Reject(ctx, from, m, "malformed", err)
		return nil, d, err
	}
	if limit := in.MaxReceives(from); limit > 0 && m.ReceiveCount > limit-lastReceives {
		return in.lastChance(ctx, w)
	}
	if ended, d, err := in.prepare(ctx, w); ended || err != nil {
		d, err = in.Finish(ctx, *w, d, err)
		return nil, d, err
	}
	return w, d, nil
}

// Finish returns the disposition of a message after its work, which ended with d or err. If
// the queue would soon give the message up, or would not bring it back by itself, a copy
// replaces it.
func (in *Intake) Finish(ctx context.Context, w Work, d Disposition, err error) (Disposition, error) {
	if w.Last == "" && in.NeedsRenewal(w.From, w.Received) && (err != nil || !d.Done) {
		return in.Renew(ctx, w.From, w.Received, d, err)
	}
	return d, err
}

// slowClock is how far this process's clock may be behind that of a process that sent a
// message with the longest wait, for the message to be handed back like any other.
const slowClock = time.Minute

// prepare sees to it that a message is due and has a record. ended: it is not due, and its
// disposition is d.
func (in *Intake) prepare(ctx context.Context, w *Work) (ended bool, d Disposition, err error) {
	msg := w.Message
	wait := msg.NotBefore.Sub(in.Now())
	if wait > 0 && !w.From.Ordered() && wait <= queue.MaxDelay+slowClock {
		// The queue could not delay the message, or is of another type than the queue
		// that it was sent to.
		return true, Again(wait), nil
	}
	if wait > 0 || msg.Deliver != nil {
		// Before a task is put on the agenda: another request may have the activity's id, and
		// its task would be replaced.
		if err := in.makeUpAll(ctx, msg); err != nil {
			return false, d, err
		}
	}
	if wait > 0 {
		d, err = in.postpone(ctx, *w)
		return true, d, err
	}
	if msg.Deliver != nil && msg.Deliver.Position == message.Whole && msg.Deliver.Chunk == 0 {
		err = in.Watch(ctx, *msg.Activity)
	}
	return false, d, err
}

// lastChance gives up a message at its last receives, with records and dead letters; the
// queue would only move the message. The receives before would have renewed the message if
// their processes had lived. So the message probably kills processes, and is not worked on
// again.
func (in *Intake) lastChance(ctx context.Context, w *Work) (*Work, Disposition, error) {
	w.Last = "received " + strconv.Itoa(w.Received.ReceiveCount) + " times without being finished"
	// An end can be recorded only of an activity that has a record.
	if err := in.makeUpAll(ctx, w.Message); err != nil {
		return nil, Disposition{}, err
	}
	if w.Message.Deliver == nil {
		d, err := in.Abandon(ctx, *w, "receives", errors.New(w.Last))
		return nil, d, err
	}
	return w, Disposition{}, nil
}

// watched is for how long it is looked whether an activity is done: longer than any retry
// policy may be configured to try.
const watched = 100 * 24 * time.Hour

// Watch begins to watch an activity that asks for it, when its first message comes. The
// message is not acknowledged before.
func (in *Intake) Watch(ctx context.Context, a activity.Activity) error {
	if !a.Notify || in.Events == nil {
		return nil
	}
	return in.Events.Watch(ctx, a.ID, About(in.Protocols, a), in.Now().Add(watched))
}

// About is what an activity says of itself, for its events.
func About(protocols protocol.Set, a activity.Activity) events.About {
	about := events.About{Type: a.Type, Metadata: a.Metadata}
	if p, ok := protocols.Of(a.Protocol); ok && p.Intake.Inspector != nil {
		said, _ := p.Intake.Inspector.Inspect(a.Body)
		about.ID, about.Actor = said.ID, said.Actor
	}
	return about
}
