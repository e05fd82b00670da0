package enqueue

import (
	"context"
	"log/slog"

	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
)

// Superseding calls a Coalescer for activities that are on a queue. A Service does so itself; for
// delayed activities the agenda calls Released. The call follows the send, because an activity
// that was never sent must not supersede another. A lost call means that more is sent than
// necessary.
type Superseding struct {
	Coalescer Coalescer // nil: none
	Payloads  claimcheck.Store
	Log       *slog.Logger
}

func (s Superseding) sent(ctx context.Context, m message.Message) {
	if s.Coalescer == nil {
		return
	}
	for _, part := range parts(m) {
		if part.Activity.Type == "" {
			continue // it supersedes nothing
		}
		if err := s.Coalescer.Accepted(ctx, *part.Activity, targets(part)); err != nil {
			s.Log.WarnContext(ctx, "activity is queued, but older activities that it supersedes will be sent, too",
				"activity", part.Activity.ID, "error", err)
		}
	}
}

// Released calls the Coalescer for the activities of a task that the agenda has sent.
func (s Superseding) Released(ctx context.Context, t agenda.Task) {
	if s.Coalescer == nil {
		return
	}
	m, err := message.Decode(t.Body)
	if err == nil && m.Ref != nil {
		var body string
		if body, err = claimcheck.Get(ctx, s.Payloads, m.Ref.ID, m.Ref.Parts); err == nil {
			m, err = message.Decode(body)
		}
	}
	if err != nil {
		s.Log.WarnContext(ctx, "a released activity cannot be read: older activities that it supersedes will be sent, too", "activity", t.ID, "error", err)
		return
	}
	s.sent(ctx, m)
}

func parts(m message.Message) []message.Message {
	if m.Batch != nil {
		return m.Batch
	}
	return []message.Message{m}
}

// targets returns the targets of a single message.
func targets(m message.Message) []activity.Target {
	if m.FanOut != nil {
		return m.FanOut.Targets
	}
	return m.Deliver.Targets
}
