package enqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/message/tracing"
)

// maxMessage is the largest encoded message in bytes that goes on a queue.
// Message attributes count towards SQS's limit too.
const maxMessage = queue.MaxBytes - 1<<10

// attribute is the only message attribute. Operators and redrive tools find an activity by it
// without parsing the body.
const attribute = "activity"

const recordsAtOnce = 8

// hand records the call and puts it on the queue, or in the agenda if the delay is longer
// than the queue's maximum. The first from records exist already. After nil the activity will
// be delivered.
//
// With the open fallback, the call succeeds while the table is down: the message carries what
// the table would hold (message.Unrecorded, message.NotBefore).
func (s *Service) hand(ctx context.Context, p *plan, base activity.ID, at time.Time, from int) (failed *SendError) {
	ctx, span := s.o.Trace.Send(ctx, p.queue, base, len(p.items), p.recipients())
	defer func() {
		if failed != nil {
			span.End(failed)
		} else {
			span.End(nil)
		}
	}()
	rs := p.records(base, at, s.o.Retention)
	m := p.message(rs, tracing.Carried(ctx))
	missing, err := s.recordCall(ctx, p, rs, from, m)
	if err != nil {
		return &SendError{Err: err}
	}
	if missing = missing || p.unrecorded; missing && s.o.Meter != nil {
		s.o.Meter.Counted(Unrecorded, len(rs))
	}
	body, err := s.encode(ctx, p, m, rs, missing)
	if err != nil {
		return &SendError{Err: err}
	}
	later := time.Time{}
	if p.later() {
		err := s.postpone(ctx, p, base, body, rs[0])
		if err == nil || !s.o.Markers.Open() {
			return err
		}
		s.o.Log.DebugContext(ctx, "the agenda could not be written; the message goes to the queue", "activity", base, "error", err)
		later = rs[0].DueAt
		held, encodeErr := holdBack(body, later)
		if encodeErr != nil {
			return &SendError{Err: encodeErr}
		}
		body = held
	}
	return s.send(ctx, p, m, base, body, later, missing)
}

// recordCall writes the records of the call, of which the first from exist already, and those
// of its protocols. missing reports that a write failed and that the open fallback lets the
// call go on.
func (s *Service) recordCall(ctx context.Context, p *plan, rs []ledger.Record, from int, m message.Message) (missing bool, err error) {
	brief, cancel := s.o.Markers.Brief(ctx)
	defer cancel()
	if err = s.record(brief, rs[from:], p.listed(rs)); err != nil {
		err = fmt.Errorf("record activity: %w", err)
	} else {
		err = s.recordJobs(brief, m)
	}
	if err == nil || !s.o.Markers.Open() || ctx.Err() != nil || errors.Is(err, ledger.ErrExists) {
		return false, err
	}
	s.o.Log.DebugContext(ctx, "activity could not be recorded; its message carries the record", "error", err)
	return true, nil
}

// Unrecorded is the Meter's name for activities that were accepted without a
// record.
const Unrecorded = "Unrecorded"

func (s *Service) send(ctx context.Context, p *plan, m message.Message, base activity.ID, body string, later time.Time, missing bool) *SendError {
	out := queue.Message{Body: body, Delay: p.delay, Attributes: map[string]string{attribute: string(base)}}
	if !later.IsZero() {
		out.Delay = p.caps.MaxDelay
	}
	if p.caps.NativeDeduplication {
		out.OrderingKey, out.DeduplicationKey = p.group(base), p.once(base)
	}
	if p.caps.Fair {
		out.OrderingKey = m.Sender()
	}
	if err := p.sender.Send(ctx, out); err != nil {
		return &SendError{Err: fmt.Errorf("send to queue %s: %w", p.queue, err), MaybeSent: !queue.NotSent(err)}
	}
	if !missing && later.IsZero() {
		Superseding{s.o.Coalescer, s.o.Payloads, s.o.Log}.sent(ctx, m)
	}
	return nil
}

// group is the message group on a FIFO queue.
func (p *plan) group(base activity.ID) string {
	if p.ordering != "" {
		return p.ordering
	}
	return string(base)
}

// once is the deduplication id on a FIFO queue. It contains the fingerprint: while the table
// is down, another request with the same key gets the same base, and the queue would drop it
// as a duplicate.
func (p *plan) once(base activity.ID) string {
	if p.fingerprint == "" {
		return string(base)
	}
	return string(base) + "/" + p.fingerprint
}

// storedAs is the name of the call's message in the agenda and in claim checks. A call that
// could not look up its id must not overwrite the message of another call.
func (p *plan) storedAs(base activity.ID) string {
	if !p.unrecorded {
		return string(base)
	}
	return p.once(base)
}

// encode returns the body of the queue message: the message, or its claim check if it is too
// large.
func (s *Service) encode(ctx context.Context, p *plan, m message.Message, rs []ledger.Record, missing bool) (string, error) {
	if missing {
		unrecorded(&m, rs, p.listed(rs))
	}
	name, forget := p.storedAs(rs[0].ID), rs[0].Forget.Add(agenda.Slack)
	body, err := message.Encode(m)
	if err != nil {
		return "", err
	}
	switch {
	case len(body) <= s.maxMessage && p.later():
		return agenda.Fit(ctx, s.o.Payloads, name, body, forget)
	case len(body) <= s.maxMessage:
		return body, nil
	}
	parts, err := claimcheck.Put(ctx, s.o.Payloads, name, body, forget)
	if err != nil {
		return "", err
	}
	return message.Encode(message.Message{Ref: &message.Ref{ID: name, Parts: parts}})
}

// unrecorded adds the content of the records rs, and of the list entries ls, to a message.
func unrecorded(m *message.Message, rs []ledger.Record, ls []ledger.Listed) {
	add := func(m *message.Message, r ledger.Record) {
		m.Unrecorded = &message.Unrecorded{Fingerprint: r.Fingerprint, DueAt: r.DueAt, Forget: r.Forget}
		for _, l := range ls {
			if l.ID == r.ID {
				m.Unrecorded.ActivityID, m.Unrecorded.Sender, m.Unrecorded.Actor, m.Unrecorded.Object = l.ActivityID, l.Sender, l.Actor, l.Object
			}
		}
	}
	if m.Batch == nil {
		add(m, rs[0])
		return
	}
	for i := range m.Batch {
		add(&m.Batch[i], rs[i])
	}
}

// holdBack writes the due time into an encoded message that goes on the queue
// before that time.
func holdBack(body string, due time.Time) (string, error) {
	m, err := message.Decode(body)
	if err != nil {
		return "", err
	}
	m.NotBefore = due
	return message.Encode(m)
}

// record writes the lists by which activities are found, and their records, concurrently. A
// list may name an activity whose record was never written: readers skip it.
func (s *Service) record(ctx context.Context, rs []ledger.Record, ls []ledger.Listed) error {
	if len(ls) == 0 {
		return s.create(ctx, rs)
	}
	listed := make(chan error, 1)
	go func() { listed <- s.o.Ledger.ListActivities(ctx, ls) }()
	err := s.create(ctx, rs)
	return errors.Join(err, <-listed)
}

func (s *Service) create(ctx context.Context, rs []ledger.Record) error {
	if len(rs) == 1 {
		return s.o.Ledger.CreateActivity(ctx, rs[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(recordsAtOnce)
	for _, r := range rs {
		g.Go(func() error { return s.o.Ledger.CreateActivity(ctx, r) })
	}
	return g.Wait()
}

// recordJobs gives each activity to its protocol's recorder, before the send.
func (s *Service) recordJobs(ctx context.Context, m message.Message) error {
	for _, part := range parts(m) {
		a := part.Activity
		p, _ := s.o.Protocols.Of(a.Protocol)
		if p.Intake.Recorder == nil {
			continue
		}
		for _, t := range targets(part) {
			if err := p.Intake.Recorder.Record(ctx, *a, t); err != nil {
				return fmt.Errorf("record job %s: %w", a.Job, err)
			}
		}
	}
	return nil
}

// postpone puts the message into the agenda. After an error the task may have been written,
// and the activity may be sent.
func (s *Service) postpone(ctx context.Context, p *plan, base activity.ID, body string, first ledger.Record) *SendError {
	t := agenda.Task{ID: p.storedAs(base), Queue: p.queue, Body: body, DueAt: first.DueAt, Forget: first.Forget.Add(agenda.Slack)}
	if p.caps.NativeDeduplication {
		t.Group, t.Key = p.group(base), agenda.ReleaseKey(t.ID)
	}
	brief, cancel := s.o.Markers.Brief(ctx)
	defer cancel()
	if err := s.o.Agenda.PutTask(brief, t); err != nil {
		return &SendError{Err: fmt.Errorf("write the agenda: %w", err), MaybeSent: true}
	}
	return nil
}
