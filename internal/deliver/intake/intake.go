// Package intake turns a received message into sound work, or ends it.
//
// A message may be unreadable, not due yet, about to be dropped by its queue, or about an
// activity without a record, because the table was down when it was accepted. The packages
// after this one need not know that.
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

// Receive reads a message. If nothing is left to be done, work is nil and d is its disposition.
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

// Finish returns the disposition of a message after its work. If the queue would soon drop the
// message, or would not redeliver it, a copy replaces it.
func (in *Intake) Finish(ctx context.Context, w Work, d Disposition, err error) (Disposition, error) {
	if w.Last == "" && in.NeedsRenewal(w.From, w.Received) && (err != nil || !d.Done) {
		return in.Renew(ctx, w.From, w.Received, d, err)
	}
	return d, err
}

// slowClock is by how much the clocks of two processes may differ. A message with the longest delay
// then still goes back to its queue, and not on the agenda.
const slowClock = time.Minute

// prepare makes sure that a message is due and has a record. ended: it is not due, and d is its
// disposition.
func (in *Intake) prepare(ctx context.Context, w *Work) (ended bool, d Disposition, err error) {
	msg := w.Message
	wait := msg.NotBefore.Sub(in.Now())
	if wait > 0 && !w.From.Ordered() && wait <= queue.MaxDelay+slowClock {
		// The queue could not delay the message, or is of another type than at the time of
		// sending.
		return true, Again(wait), nil
	}
	if wait > 0 || msg.Deliver != nil {
		// This comes first: if another request has the activity's id, the message would replace
		// that request's task on the agenda.
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

// lastChance gives up a message at its last receives, with records and dead letters; the queue
// would only move it. Earlier receives would have renewed it if their processes had lived, so
// it probably kills processes and is not worked on again.
func (in *Intake) lastChance(ctx context.Context, w *Work) (*Work, Disposition, error) {
	w.Last = "received " + strconv.Itoa(w.Received.ReceiveCount) + " times without being finished"
	// Only an activity with a record can have its end recorded.
	if err := in.makeUpAll(ctx, w.Message); err != nil {
		return nil, Disposition{}, err
	}
	if w.Message.Deliver == nil {
		d, err := in.Abandon(ctx, *w, "receives", errors.New(w.Last))
		return nil, d, err
	}
	return w, Disposition{}, nil
}

// watched is how long an activity is checked for being done: longer than any retry policy.
const watched = 100 * 24 * time.Hour

// Watch registers an activity that asks for the event of its end. Its message is acknowledged
// later.
func (in *Intake) Watch(ctx context.Context, a activity.Activity) error {
	if !a.Notify || in.Events == nil {
		return nil
	}
	return in.Events.Watch(ctx, a.ID, About(in.Protocols, a), in.Now().Add(watched))
}

// About is the part of an activity that its events have.
func About(protocols protocol.Set, a activity.Activity) events.About {
	about := events.About{Type: a.Type, Metadata: a.Metadata}
	if p, ok := protocols.Of(a.Protocol); ok && p.Intake.Inspector != nil {
		said, _ := p.Intake.Inspector.Inspect(a.Body)
		about.ID, about.Actor = said.ID, said.Actor
	}
	return about
}
