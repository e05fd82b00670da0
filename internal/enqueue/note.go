package enqueue

import (
	"context"

	"fedpost/internal/activity"
	"fedpost/internal/agenda"
	"fedpost/internal/blob"
	"fedpost/internal/message"
)

// note tells the Noter of what is now on a queue. It comes after the send,
// because an activity that was never sent must not make another superfluous;
// and it may be missed, which only means that more is sent than necessary.
func (s *Service) note(ctx context.Context, m message.Message) {
	if s.o.Noter == nil {
		return
	}
	for _, part := range parts(m) {
		if part.Activity.Protocol != activity.ActivityPub {
			continue
		}
		if err := s.o.Noter.Note(ctx, *part.Activity, targets(part)); err != nil {
			s.o.Log.WarnContext(ctx, "activity is queued, but not noted: older ones that it makes superfluous will be sent",
				"activity", part.Activity.ID, "error", err)
		}
	}
}

// NoteReleased is note for a task that the agenda has sent.
func (s *Service) NoteReleased(ctx context.Context, t agenda.Task) {
	if s.o.Noter == nil {
		return
	}
	m, err := message.Decode(t.Body)
	if err == nil && m.Ref != nil {
		var body string
		if body, err = blob.Get(ctx, s.o.Blobs, m.Ref.ID, m.Ref.Parts); err == nil {
			m, err = message.Decode(body)
		}
	}
	if err != nil {
		s.o.Log.WarnContext(ctx, "released activity could not be read to note it", "activity", t.ID, "error", err)
		return
	}
	s.note(ctx, m)
}

// parts are the messages that m is made of.
func parts(m message.Message) []message.Message {
	if m.Batch != nil {
		return m.Batch
	}
	return []message.Message{m}
}

// targets are those of a single message.
func targets(m message.Message) []activity.Target {
	if m.FanOut != nil {
		return m.FanOut.Targets
	}
	return m.Deliver.Targets
}
