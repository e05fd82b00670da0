package intake

import (
	"context"
	"time"

	"fedpost/internal/engine/queue"
)

// Disposition is what becomes of a queue message.
type Disposition struct {
	Done bool
	// After is the wait until the message comes back if it is not done. Negative: its
	// visibility timeout.
	After time.Duration
}

// Done is the disposition of a message that is done.
var Done = Disposition{Done: true}

// Again is the disposition of a message that comes back after a wait.
func Again(after time.Duration) Disposition { return Disposition{After: max(0, after)} }

// CameBack is the counter of messages and deliveries that are tried again because of a fault of
// ours: in the table, a queue or the keys.
const CameBack = "CameBack"

// Trouble is the disposition of a message that failed through a fault of ours: the wait grows
// with the number of receives. An ordered message cannot be renewed, because a copy would lose
// its place; so its waits grow until its receives last for days.
func (in *Intake) Trouble(from queue.Name, m queue.Received) Disposition {
	longest := 5 * time.Minute
	if from.Ordered() {
		longest = time.Hour
	}
	in.Meter.Counted(CameBack, 1)
	wait := time.Duration(max(1, m.ReceiveCount)) * 15 * time.Second
	return Again(Jitter(min(wait, longest), in.Random()))
}

// HandBack sets when a message becomes visible again, and reports whether no other try can help:
// the queue took it, or never will. Otherwise the present visibility timeout stays.
func (in *Intake) HandBack(ctx context.Context, from queue.Name, m queue.Received, d Disposition) bool {
	if d.After < 0 {
		return true
	}
	if err := in.Queues(from).ChangeVisibility(ctx, m.Handle, min(d.After, queue.MaxVisibility)); err != nil {
		in.Meter.Counted(CameBack, 1)
		in.Log.WarnContext(ctx, "back-off of a message could not be set", "queue", from, "messageId", m.ID, "error", err)
		return queue.Refused(err)
	}
	return true
}

// Jitter varies d by up to a fifth in both directions; random is in [0, 1).
func Jitter(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*random))
}
