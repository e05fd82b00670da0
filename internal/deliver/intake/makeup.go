package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
)

// MakeUp writes what could not be written when the activity was accepted because the table was
// down: the activity's record, and what its protocol records before a first attempt. Both may
// be repeated.
//
// If another request has the activity's id, MakeUp gives a another id: without the table,
// requests with one deduplication key could not be recognised.
func (in *Intake) MakeUp(ctx context.Context, a *activity.Activity, targets []activity.Target, u message.Unrecorded) error {
	err := in.recordLate(ctx, *a, targets, u)
	if errors.Is(err, ledger.ErrExists) {
		var there ledger.Record
		if there, err = in.Ledger.Activity(ctx, a.ID); err == nil && there.Fingerprint != u.Fingerprint {
			a.ID = activity.DerivedID(a.ID.Time(), string(a.ID)+"/"+u.Fingerprint)
			err = in.recordLate(ctx, *a, targets, u)
		}
		if errors.Is(err, ledger.ErrExists) {
			err = nil // by the same request
		}
	}
	if err != nil {
		return fmt.Errorf("make up for the record of an activity: %w", err)
	}
	p, _ := in.Protocols.Of(a.Protocol)
	if p.Intake.Recorder == nil {
		return nil
	}
	for _, t := range targets {
		if err := p.Intake.Recorder.Record(ctx, *a, t); err != nil {
			return fmt.Errorf("make up for what protocol %s records: %w", a.Protocol, err)
		}
	}
	return nil
}

// recordLate writes the record of an activity and its entry in the list.
func (in *Intake) recordLate(ctx context.Context, a activity.Activity, targets []activity.Target, u message.Unrecorded) error {
	r := ledger.Record{
		ID: a.ID, Protocol: a.Protocol, Type: a.Type, CreatedAt: a.CreatedAt, DueAt: u.DueAt, ExpiresAt: a.ExpiresAt,
		Targets: len(targets), Chunk: ledger.ChunkSize, OrderingKey: a.OrderingKey, Fingerprint: u.Fingerprint, Metadata: a.Metadata, Forget: u.Forget,
	}
	for _, t := range targets {
		r.Recipients += max(1, t.Stands)
	}
	if a.Ordered() {
		r.Chunk = 1
	}
	if r.Targets <= r.Chunk {
		r.Inline = targets
	}
	// The list comes second, so that it names no other request's activity.
	if err := in.Ledger.CreateActivity(ctx, r); err != nil {
		return err
	}
	if u.Sender != "" {
		l := ledger.Listed{
			ID: a.ID, ActivityID: u.ActivityID, Sender: u.Sender, Actor: u.Actor, Type: a.Type, KeyID: a.KeyID,
			Object: u.Object, Bytes: len(a.Body), CreatedAt: a.CreatedAt, Forget: u.Forget,
		}
		return in.Ledger.ListActivities(ctx, []ledger.Listed{l})
	}
	return nil
}

func (in *Intake) makeUpAll(ctx context.Context, msg message.Message) error {
	for _, inner := range msg.Batch {
		if err := in.makeUpAll(ctx, inner); err != nil {
			return err
		}
	}
	if msg.Activity == nil || msg.Unrecorded == nil {
		return nil
	}
	var targets []activity.Target
	switch {
	case msg.Deliver != nil:
		targets = msg.Deliver.Targets
	case msg.FanOut != nil:
		targets = msg.FanOut.Targets
	}
	return in.MakeUp(ctx, msg.Activity, targets, *msg.Unrecorded)
}

// postpone moves a message that is not due yet to the agenda, which could not be written when
// it was accepted.
func (in *Intake) postpone(ctx context.Context, w Work) (Disposition, error) {
	msg := w.Message
	t := agenda.Task{Queue: w.From, DueAt: msg.NotBefore, Forget: msg.NotBefore.Add(agenda.Slack)}
	switch first := msg; {
	case msg.Ref != nil:
		t.ID = msg.Ref.ID
		if w.From.Ordered() {
			t.Group = w.Received.OrderingKey
		}
	default:
		if len(msg.Batch) > 0 {
			first = msg.Batch[0]
		}
		t.ID, t.Group = string(first.Activity.ID), first.Activity.OrderingKey
	}
	if d := msg.Deliver; d != nil && (d.Position != message.Whole || d.Chunk > 0) {
		// A delivery of our own: under the activity's id it would replace the task of another
		// delivery.
		t.ID = d.Unit(msg.Activity.ID).String()
	}
	t.Key = agenda.ReleaseKey(t.ID)
	msg.NotBefore = time.Time{}
	body, err := message.Encode(msg)
	if err != nil {
		return Disposition{}, err
	}
	if t.Body, err = agenda.Fit(ctx, in.Payloads, t.ID, body, t.Forget); err != nil {
		return Disposition{}, fmt.Errorf("note for later: %w", err)
	}
	if err := in.Agenda.PutTask(ctx, t); err != nil {
		return Disposition{}, fmt.Errorf("note for later: %w", err)
	}
	return Done, nil
}
