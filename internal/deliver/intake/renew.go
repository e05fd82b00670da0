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

// Attributes of messages in the dead-letter queue, for operators and programs
// that do not parse the body.
const (
	AttributeReason = "reason"
	AttributeError  = "error"
	AttributeSource = "source"
)

// AttributeRenewed says, on a message that was put on its queue anew after it could not be
// worked on, why.
const AttributeRenewed = "renewed"

// Reject moves a message that cannot be worked on to the dead-letter queue at
// once, with the reason, instead of letting it come back until the queue gives it
// up.
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

// A message is given up at the lastReceives that a queue allows, and is renewed, if it is
// not finished, at the renewals before them. One of each would do if processes never died
// and calls never failed: after a death in the very last receive the queue moves the
// message to its dead letters, and the ledger says for ever that it is retried.
const (
	lastReceives = 75
	renewals     = 15
)

// CameBefore reports whether a message was received before, perhaps as the one that it
// was renewed from.
func CameBefore(m queue.Received) bool {
	return m.ReceiveCount > 1 || m.Attributes[AttributeRenewed] != ""
}

// NeedsRenewal reports whether m, if it is not finished, must be replaced by a copy. An
// ordered message cannot be: a copy would lose its place.
func (in *Intake) NeedsRenewal(from queue.Name, m queue.Received) bool {
	limit := in.MaxReceives(from)
	// A copy that has to wait is handed back at its first receive where the queue has no
	// delays: replaced at once, it would be replaced for ever.
	return !from.Ordered() && (!in.Queues(from).Capabilities().NativeRetrial || limit > 0 && m.ReceiveCount > max(1, limit-lastReceives-renewals))
}

// Renew replaces a message that the queue would soon give up, or that would not come back
// by itself, by a fresh copy. Its receives were no failures: the message waited, or the
// table was down. The ledger counts attempts, so the copy loses nothing.
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
	in.Log.WarnContext(ctx, "a message was received often and was put on its queue anew", "queue", from, "messageId", m.ID,
		"receives", m.ReceiveCount, "error", cause)
	return Done, nil
}

// Receipt names one receipt of a message.
func Receipt(m queue.Received) string { return m.ID + "." + strconv.Itoa(m.ReceiveCount) }

// SendAlone puts out, to which the message m has led, on the queue that m came from. On a
// FIFO queue out is in a group of its own, and under a key that no other message has: the
// queue must never drop it.
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

// Send puts deliveries of an activity, to which the message m has led, on the queue that m
// came from. waits are their delays, nil for none. It returns one error per delivery, and
// one for all.
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
