package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/message/tracing"
)

// message works on one queue message.
func (v *invocation) message(ctx context.Context, m queue.Received) (disposition, error) {
	msg, err := message.Decode(m.Body)
	if errors.Is(err, message.ErrNewer) {
		return v.reject(ctx, m, "newer", err)
	}
	if err != nil {
		return v.reject(ctx, m, "malformed", err)
	}
	limit := v.Limits.MaxReceives(v.from)
	if limit > 0 && m.ReceiveCount > limit-lastReceives {
		return v.lastChance(ctx, m, msg)
	}
	f, err := v.work(ctx, m, msg)
	if v.needsRenewal(m) && (err != nil || !f.done) {
		return v.renew(ctx, m, f, err)
	}
	return f, err
}

// A message is given up at the lastReceives that a queue allows, and is renewed, if it is
// not finished, at the renewals before them. One of each would do if processes never died
// and calls never failed: after a death in the very last receive the queue moves the
// message to its dead letters, and the ledger says for ever that it is retried.
const (
	lastReceives = 75
	renewals     = 15
)

// slowClock is how far this process's clock may be behind that of a process that sent a
// message with the longest wait, for the message to be handed back like any other.
const slowClock = time.Minute

func (v *invocation) work(ctx context.Context, m queue.Received, msg message.Message) (disposition, error) {
	if wait := msg.NotBefore.Sub(v.Now()); wait > 0 {
		if !v.from.Ordered() && wait <= queue.MaxDelay+slowClock {
			// The queue could not delay the message, or is of another type than the queue
			// that it was sent to.
			return again(wait), nil
		}
		// Another request may have the activity's id, and its task would be replaced.
		if err := v.makeUpAll(ctx, msg); err != nil {
			return disposition{}, err
		}
		return v.postpone(ctx, m, msg)
	}
	if msg.Deliver != nil {
		if err := v.makeUpAll(ctx, msg); err != nil {
			return disposition{}, err
		}
		if msg.Deliver.Position == message.Whole && msg.Deliver.Chunk == 0 {
			if err := v.watch(ctx, *msg.Activity); err != nil {
				return disposition{}, err
			}
		}
		ctx, span := v.Trace.Process(ctx, v.traced(m, msg.Deliver.Trial), *msg.Activity)
		f, err := v.deliver(ctx, m, *msg.Activity, *msg.Deliver)
		span.EndReceive(f.done, err)
		if msg.Deliver.Trial && f.done && err == nil {
			err = v.void(ctx, *msg.Activity, msg.Deliver.Targets[0])
		}
		return f, err
	}
	f, err := v.expand(ctx, m, msg)
	if errors.Is(err, message.ErrNewer) {
		return v.reject(ctx, m, "newer", err) // which a redrive brings back, so nothing is lost
	}
	if errors.Is(err, claimcheck.ErrNotFound) || errors.Is(err, claimcheck.ErrDamaged) {
		return v.abandon(ctx, m, msg, "payload", err)
	}
	return f, err
}

// traced describes a message whose work begins now to the tracer.
func (v *invocation) traced(m queue.Received, trial bool) tracing.Received {
	return tracing.Received{From: v.from, ID: m.ID, Receives: m.ReceiveCount, Began: time.Now(), Trial: trial}
}

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

// reject moves a message that cannot be worked on to the dead-letter queue at
// once, with the reason, instead of letting it come back until the queue gives it
// up.
func (v *invocation) reject(ctx context.Context, m queue.Received, reason string, why error) (disposition, error) {
	dead := queue.Message{
		Body: m.Body,
		Attributes: map[string]string{
			AttributeReason: reason,
			AttributeError:  outcome.Clean(why.Error(), 512),
			AttributeSource: string(v.from),
		},
	}
	to := v.Queues(v.from.DeadLetter())
	if to.Capabilities().NativeDeduplication {
		dead.OrderingKey, dead.DeduplicationKey = cmp.Or(m.OrderingKey, m.ID), "reject/"+m.ID
	}
	if err := to.Send(ctx, dead); err != nil {
		return disposition{}, fmt.Errorf("send to dead letters: %w", err)
	}
	v.Log.ErrorContext(ctx, "a message was moved to the dead letters", "queue", v.from, "messageId", m.ID, "reason", reason, "error", why)
	v.Meter.Counted("Rejected", 1)
	return done, nil
}

// needsRenewal reports whether m, if it is not finished, must be replaced by a copy. An
// ordered message cannot be: a copy would lose its place.
func (v *invocation) needsRenewal(m queue.Received) bool {
	limit := v.Limits.MaxReceives(v.from)
	// A copy that has to wait is handed back at its first receive where the queue has no
	// delays: replaced at once, it would be replaced for ever.
	return !v.from.Ordered() && (!v.can().NativeRetrial || limit > 0 && m.ReceiveCount > max(1, limit-lastReceives-renewals))
}

// renew replaces a message that the queue would soon give up, or that would not come back
// by itself, by a fresh copy. Its receives were no failures: the message waited, or the
// table was down. The ledger counts attempts, so the copy loses nothing.
func (v *invocation) renew(ctx context.Context, m queue.Received, f disposition, cause error) (disposition, error) {
	attributes := m.Attributes
	if cause != nil {
		f = v.trouble(m)
		if attributes = maps.Clone(m.Attributes); attributes == nil {
			attributes = map[string]string{}
		}
		attributes[AttributeRenewed] = outcome.Clean(cause.Error(), 512)
	}
	wait := min(max(0, f.after), queue.MaxDelay)
	fresh := queue.Message{Body: m.Body, Delay: min(wait, v.can().MaxDelay), Attributes: attributes}
	if fresh.Delay < wait {
		msg, err := message.Decode(m.Body)
		if err == nil {
			msg.NotBefore = v.Now().Add(wait)
			fresh.Body, err = message.Encode(msg)
		}
		if err != nil {
			return disposition{}, errors.Join(err, cause)
		}
	}
	if err := v.sendAlone(ctx, m, "renewed", fresh); err != nil {
		return disposition{}, fmt.Errorf("renew message: %w", errors.Join(err, cause))
	}
	v.Log.WarnContext(ctx, "a message was received often and was put on its queue anew", "queue", v.from, "messageId", m.ID,
		"receives", m.ReceiveCount, "error", cause)
	return done, nil
}

// can is what this invocation's queue does by itself.
func (v *invocation) can() queue.Capabilities { return v.Queues(v.from).Capabilities() }

// sendAlone puts out, to which the message m has led, on this invocation's queue. On a FIFO
// queue out is in a group of its own, and under a key that no other message has: the queue
// must never drop it.
func (v *invocation) sendAlone(ctx context.Context, m queue.Received, what string, out queue.Message) error {
	to := v.Queues(v.from)
	if to.Capabilities().NativeDeduplication {
		key := what + "/" + receipt(m)
		out.OrderingKey, out.DeduplicationKey = key, key
	}
	return to.Send(ctx, out)
}

// lastChance gives up a message at its last receives, with records and dead letters; the
// queue would only move the message. The receives before would have renewed the message if
// their processes had lived. So the message probably kills processes, and is not worked on
// again.
func (v *invocation) lastChance(ctx context.Context, m queue.Received, msg message.Message) (disposition, error) {
	why := errors.New("received " + strconv.Itoa(m.ReceiveCount) + " times without being finished")
	// An end can be recorded only of an activity that has a record.
	if err := v.makeUpAll(ctx, msg); err != nil {
		return disposition{}, err
	}
	if msg.Deliver == nil {
		return v.abandon(ctx, m, msg, "receives", why)
	}
	return v.giveUp(ctx, m, *msg.Activity, *msg.Deliver, "receives", why.Error())
}

// delayed returns how long until at, at least 0.
func (v *invocation) delayed(at time.Time) time.Duration { return max(0, at.Sub(v.Now())) }
