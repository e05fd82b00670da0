package enqueue

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
)

// maxMessage is the largest encoded message that goes on a queue: the limit
// counts attributes, too.
const maxMessage = queue.MaxBytes - 1<<10

// attribute is the one message attribute: operators and redrive tools find an
// activity by it without parsing the body.
const attribute = "activity"

// recordsAtOnce is how many records of a batch are written concurrently.
const recordsAtOnce = 8

// hand records the call and hands it to the queue, or to the agenda if it is
// for later than the queue can hold it. The records before from are there
// already. A nil result means that it is on its way.
func (s *Service) hand(ctx context.Context, p *plan, base activity.ID, at time.Time, from int) *SendError {
	rs := p.records(base, at, s.o.Retention)
	m := p.message(rs)
	body, err := s.encode(ctx, p, m, base, rs[0].Forget)
	if err != nil {
		return &SendError{Err: err}
	}
	if err := s.record(ctx, rs[from:]); err != nil {
		return &SendError{Err: fmt.Errorf("record activity: %w", err)}
	}
	if err := s.tell(ctx, m); err != nil {
		return &SendError{Err: err}
	}
	if p.later() {
		return s.postpone(ctx, p, base, body, rs[0])
	}

	out := queue.Message{Body: body, Delay: p.delay, Attributes: map[string]string{attribute: string(base)}}
	if p.caps.NativeDeduplication {
		out.OrderingKey, out.DeduplicationKey = p.group(base), string(base)
	}
	if err := p.sender.Send(ctx, out); err != nil {
		return &SendError{Err: fmt.Errorf("send to queue %s: %w", p.queue, err), MaybeSent: !queue.NotSent(err)}
	}
	Notes{s.o.Noter, s.o.Payloads, s.o.Log}.sent(ctx, m)
	return nil
}

// group is the message group on a queue that has groups.
func (p *plan) group(base activity.ID) string {
	if p.ordering != "" {
		return p.ordering
	}
	return string(base)
}

// encode returns what goes on the queue: the message, or if that is too large a
// claim check for it.
func (s *Service) encode(ctx context.Context, p *plan, m message.Message, base activity.ID, forget time.Time) (string, error) {
	body, err := message.Encode(m)
	if err != nil {
		return "", err
	}
	fits := len(body) <= s.maxMessage
	if fits && p.later() {
		packed, err := claimcheck.Deflate(body)
		if err != nil {
			return "", err
		}
		fits = len(packed) <= claimcheck.PartSize
	}
	if fits {
		return body, nil
	}
	parts, err := claimcheck.Put(ctx, s.o.Payloads, string(base), body, forget)
	if err != nil {
		return "", err
	}
	return message.Encode(message.Message{Ref: &message.Ref{ID: string(base), Parts: parts}})
}

func (s *Service) record(ctx context.Context, rs []ledger.Record) error {
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

// tell tells each activity's protocol of it, before it is sent.
func (s *Service) tell(ctx context.Context, m message.Message) error {
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

// postpone notes the message for later. An error leaves open whether it was
// noted, and then it will be sent.
func (s *Service) postpone(ctx context.Context, p *plan, base activity.ID, body string, first ledger.Record) *SendError {
	t := agenda.Task{ID: string(base), Queue: p.queue, Body: body, DueAt: first.DueAt, Forget: first.Forget}
	if p.caps.NativeDeduplication {
		t.Group, t.Key = p.group(base), string(base)
	}
	if err := s.o.Agenda.PutTask(ctx, t); err != nil {
		return &SendError{Err: fmt.Errorf("note for later: %w", err), MaybeSent: true}
	}
	return nil
}
