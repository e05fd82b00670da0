package deliver

import (
	"context"
	"time"

	"fedpost/internal/engine/queue"
)

// disposition is what becomes of a queue message.
type disposition struct {
	done bool
	// after is when the message comes back if it is not done. Negative: when its
	// visibility timeout ends.
	after time.Duration
}

var done = disposition{done: true}

func again(after time.Duration) disposition { return disposition{after: max(0, after)} }

// cameBack counts messages and deliveries that are tried again because something of ours
// failed: the table, a queue, the keys. No remote server causes one.
const cameBack = "CameBack"

// trouble is the disposition of a message that failed through a fault of ours, such as
// an outage of the table: waits that grow with the number of receives. A standard message
// is replaced by a fresh copy before its last receive. An ordered message cannot be
// replaced, because a copy would lose the message's place; so its waits grow until its
// receives last for days.
func (v *invocation) trouble(m queue.Received) disposition {
	longest := 5 * time.Minute
	if v.from.Ordered() {
		longest = time.Hour
	}
	v.Meter.Counted(cameBack, 1)
	wait := time.Duration(max(1, m.ReceiveCount)) * 15 * time.Second
	return again(v.jitter(min(wait, longest)))
}

// jitter spreads a wait by up to a fifth in both directions.
func (v *invocation) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*v.Random()))
}

// together returns a wait of at least a second, the shortest visibility timeout of SQS
// above 0. In that time all messages of a FIFO group get their new timeout before the
// first of them is visible.
func (v *invocation) together(wait time.Duration) time.Duration {
	if v.from.Ordered() && wait >= 0 {
		return max(wait, time.Second)
	}
	return wait
}

// comeBack tells the queue when a message becomes visible again. If that call
// fails, the message becomes visible when its present visibility timeout ends.
func (v *invocation) comeBack(ctx context.Context, m queue.Received, f disposition) {
	if f.after < 0 {
		return
	}
	if err := v.Queues(v.from).ChangeVisibility(ctx, m.Handle, min(f.after, queue.MaxVisibility)); err != nil {
		v.Meter.Counted(cameBack, 1)
		v.Log.WarnContext(ctx, "back-off of a message could not be set", "queue", v.from, "messageId", m.ID, "error", err)
	}
}
