package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
)

// Aside ends delayed work that no queue takes: each recipient is recorded as dead and has a
// dead letter. Of a task that cannot be read only a message in the dead-letter queue remains,
// with the activity's id.
type Aside struct {
	Writer   Writer
	Ledger   ledger.Store
	Payloads claimcheck.Store
	Now      func() time.Time
	// Events writes the events of these deaths; nil: none. About describes an activity.
	Events deliver.EventLog
	About  func(activity.Activity) events.About
}

// SetAside implements the port of agenda.Releaser. It may be repeated.
func (s Aside) SetAside(ctx context.Context, t agenda.Task, why error) error {
	m, err := s.open(ctx, t)
	switch {
	case errors.Is(err, message.ErrMalformed), errors.Is(err, claimcheck.ErrDamaged), errors.Is(err, claimcheck.ErrNotFound):
		return s.notice(ctx, t, errors.Join(why, err))
	case err != nil:
		return err
	}
	parts := m.Batch
	if parts == nil {
		parts = []message.Message{m}
	}
	for _, part := range parts {
		if err := s.part(ctx, part, why); err != nil {
			return fmt.Errorf("activity %s: %w", part.Activity.ID, err)
		}
	}
	return nil
}

func (s Aside) open(ctx context.Context, t agenda.Task) (message.Message, error) {
	if t.Damaged != nil {
		return message.Message{}, fmt.Errorf("%w: %w", claimcheck.ErrDamaged, t.Damaged)
	}
	m, err := message.Decode(t.Body)
	if err != nil || m.Ref == nil {
		return m, err
	}
	body, err := claimcheck.Get(ctx, s.Payloads, m.Ref.ID, m.Ref.Parts)
	if err != nil {
		return message.Message{}, err
	}
	return message.Decode(body)
}

func (s Aside) part(ctx context.Context, m message.Message, why error) error {
	a := *m.Activity
	r, err := s.Ledger.Activity(ctx, a.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		r = ledger.Record{ID: a.ID, Forget: s.Now().Add(Longest)}
	} else if err != nil {
		return err
	}
	ds := []message.Delivery{}
	if m.Deliver != nil {
		ds = append(ds, *m.Deliver)
	} else {
		size := ledger.ChunkSize
		if a.Ordered() {
			size = 1
		}
		for from := m.FanOut.Cursor * size; from < len(m.FanOut.Targets); from += size {
			ds = append(ds, message.Delivery{Chunk: from / size, Targets: m.FanOut.Targets[from:min(from+size, len(m.FanOut.Targets))]})
		}
		if len(m.FanOut.Targets) > size {
			lists := make([][]activity.Target, len(ds))
			for i, d := range ds {
				lists[i] = d.Targets
			}
			if err := s.Ledger.PlanChunks(ctx, a.ID, m.FanOut.Cursor, lists, r.Forget); err != nil {
				return err
			}
		}
	}
	for _, d := range ds {
		if err := s.chunk(ctx, a, d, r.Forget, why); err != nil {
			return err
		}
	}
	return nil
}

// chunk writes the dead letters first: after a crash the records are missing, and it is
// repeated.
func (s Aside) chunk(ctx context.Context, a activity.Activity, d message.Delivery, forget time.Time, why error) error {
	rs := make([]ledger.Recipient, len(d.Targets))
	deaths := make([]deliver.Death, len(d.Targets))
	for i, target := range d.Targets {
		rs[i] = ledger.Recipient{
			Chunk: d.Chunk, Position: max(d.Position, 0) + i, Target: target, State: activity.Dead, Attempts: d.Attempts,
			LastError: outcome.Text("no queue takes the message: " + why.Error()), UpdatedAt: s.Now(), Generation: d.Generation,
		}
		deaths[i] = deliver.Death{Activity: a, Recipient: rs[i], Reason: "refused"}
	}
	if err := s.Writer.Add(ctx, deaths); err != nil {
		return err
	}
	put, err := s.Ledger.PutRecipients(ctx, a.ID, rs, forget)
	if err != nil || s.Events == nil {
		return err
	}
	var ends []events.End
	for _, r := range put {
		if e, ok := events.EndOf(a.ID, s.About(a), r); ok {
			e.At = a.CreatedAt // a repetition has another time of death
			ends = append(ends, e)
		}
	}
	return s.Events.AppendEnds(ctx, ends)
}

// notice sends a message about a task that cannot be read to the dead-letter queue.
func (s Aside) notice(ctx context.Context, t agenda.Task, why error) error {
	body, err := json.Marshal(map[string]string{"unreadable": t.ID})
	if err != nil {
		return err
	}
	m := queue.Message{Body: string(body), Attributes: map[string]string{
		intake.AttributeReason: "malformed", intake.AttributeError: outcome.Clean(why.Error(), longestError), intake.AttributeSource: "agenda",
	}}
	to := s.Writer.Queues(queue.Dead)
	if to.Capabilities().NativeDeduplication {
		m.OrderingKey, m.DeduplicationKey = t.ID, "unreadable/"+t.ID
	}
	if err := to.Send(ctx, m); err != nil {
		return fmt.Errorf("send to %s: %w", queue.Dead, err)
	}
	return nil
}
