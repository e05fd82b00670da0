package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// Attributes of messages in the dead-letter queue, for operators and programs.
const (
	AttributeReason = "reason"
	AttributeError  = "error"
	AttributeSource = "source"
)

// AttributeRenewed is why a message was renewed.
const AttributeRenewed = "renewed"

// Reject moves a message that can never be worked on to the dead-letter queue at once, with the
// reason.
func (in *Intake) Reject(ctx context.Context, from queue.Name, m queue.Received, reason string, why error) (Disposition, error) {
	dead := queue.Message{
		Body: m.Body,
		Attributes: map[string]string{
			AttributeReason: reason,
			AttributeError:  outcome.Clean(why.Error(), 512),
			AttributeSource: string(from),
		},
	}
	to := in.Queues(from.DeadLetter())
	if to.Capabilities().NativeDeduplication {
		dead.OrderingKey, dead.DeduplicationKey = cmp.Or(m.OrderingKey, m.ID), "reject/"+m.ID
	}
	if err := to.Send(ctx, dead); err != nil {
		return Disposition{}, fmt.Errorf("send to dead letters: %w", err)
	}
	in.Log.ErrorContext(ctx, "a message was moved to the dead letters", "queue", from, "messageId", m.ID, "reason", reason, "error", why)
	in.Meter.Counted("Rejected", 1)
	return Done, nil
}

// A message is given up at the last lastReceives that its queue allows, and renewed at the
// renewals before them. One of each would do if no process died and no call failed.
const (
	lastReceives = 75
	renewals     = 15
)

// CameBefore reports whether a message, or the one it was renewed from, was received before.
func CameBefore(m queue.Received) bool {
	return m.ReceiveCount > 1 || m.Attributes[AttributeRenewed] != ""
}

// NeedsRenewal reports whether a copy must replace m if it is not finished. An ordered message
// would lose its place.
func (in *Intake) NeedsRenewal(from queue.Name, m queue.Received) bool {
	limit := in.MaxReceives(from)
	// On a queue without delays a copy is handed back at its first receive: it must not be
	// renewed again.
	return !from.Ordered() && (!in.Queues(from).Capabilities().NativeRetrial || limit > 0 && m.ReceiveCount > max(1, limit-lastReceives-renewals))
}

// Renew replaces a message by a copy with no receives, because its queue would soon drop it or
// not redeliver it. The ledger counts attempts, so the copy loses nothing.
func (in *Intake) Renew(ctx context.Context, from queue.Name, m queue.Received, d Disposition, cause error) (Disposition, error) {
	attributes := m.Attributes
	if cause != nil {
		d = in.Trouble(from, m)
		if attributes = maps.Clone(m.Attributes); attributes == nil {
			attributes = map[string]string{}
		}
		attributes[AttributeRenewed] = outcome.Clean(cause.Error(), 512)
	}
	wait := min(max(0, d.After), queue.MaxDelay)
	fresh := queue.Message{Body: m.Body, Delay: min(wait, in.Queues(from).Capabilities().MaxDelay), Attributes: attributes}
	if fresh.Delay < wait {
		msg, err := message.Decode(m.Body)
		if err == nil {
			msg.NotBefore = in.Now().Add(wait)
			fresh.Body, err = message.Encode(msg)
		}
		if err != nil {
			return Disposition{}, errors.Join(err, cause)
		}
	}
	if err := in.SendAlone(ctx, from, m, "renewed", fresh); err != nil {
		return Disposition{}, fmt.Errorf("renew message: %w", errors.Join(err, cause))
	}
	in.Log.WarnContext(ctx, "a message was replaced by a fresh copy", "queue", from, "messageId", m.ID,
		"receives", m.ReceiveCount, "error", cause)
	return Done, nil
}

// Receipt identifies one receipt of a message.
func Receipt(m queue.Received) string { return m.ID + "." + strconv.Itoa(m.ReceiveCount) }

// SendAlone sends out, which follows from the message m, to the queue of m. On a FIFO queue it
// has a group and a deduplication key of its own, so that the queue never drops it.
func (in *Intake) SendAlone(ctx context.Context, from queue.Name, m queue.Received, what string, out queue.Message) error {
	to := in.Queues(from)
	if to.Capabilities().NativeDeduplication {
		key := what + "/" + Receipt(m)
		out.OrderingKey, out.DeduplicationKey = key, key
	}
	if msg, err := message.Decode(out.Body); err == nil && to.Capabilities().Fair {
		out.OrderingKey = msg.Sender()
	}
	return to.Send(ctx, out)
}

// Send sends deliveries of an activity, which follow from the message m, to the queue of m.
// waits are their delays; nil: none. It returns one error per delivery, and one for all.
func (in *Intake) Send(ctx context.Context, from queue.Name, m queue.Received, a activity.Activity, ds []message.Delivery, waits []time.Duration) ([]error, error) {
	to := in.Queues(from)
	s := message.Sending{Queue: from, Can: to.Capabilities(), Now: in.Now()}
	if !from.Ordered() {
		s.Copy = Receipt(m)
	}
	ms := make([]queue.Message, len(ds))
	for k, d := range ds {
		if waits != nil {
			s.Wait = waits[k]
		}
		m, err := d.Queued(a, s)
		if err != nil {
			return nil, err
		}
		ms[k] = m.Message
	}
	return to.SendBatch(ctx, ms), nil
}
