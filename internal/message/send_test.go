package message_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// sender records what it is sent, and fails messages by their bodies.
type sender struct {
	queue.Sender
	name queue.Name
	sent *[]string
}

var errFull = errors.New("full")

func (s sender) SendBatch(_ context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	for i, m := range ms {
		*s.sent = append(*s.sent, fmt.Sprintf("%s %s", s.name, m.Body))
		if m.Body == "bad" {
			errs[i] = errFull
		}
	}
	return errs
}

func TestMessagesOfAQueueAreSentTogetherAndEachHasItsError(t *testing.T) {
	var sent []string
	errs := message.Send(t.Context(), func(n queue.Name) queue.Sender { return sender{name: n, sent: &sent} }, []message.Addressed{
		{Queue: queue.Normal, Message: queue.Message{Body: "1"}},
		{Queue: queue.High, Message: queue.Message{Body: "2"}},
		{Queue: queue.Normal, Message: queue.Message{Body: "bad"}},
		{Queue: queue.High, Message: queue.Message{Body: "4"}},
	})
	if want := []string{"high 2", "high 4", "normal 1", "normal bad"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
	for i, err := range errs {
		if errors.Is(err, errFull) != (i == 2) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

func TestADeliveryOnAFIFOQueueHasItsGroupAndName(t *testing.T) {
	a := activity.Activity{ID: "01J", Options: activity.Options{OrderingKey: "k"}}
	d := message.Delivery{Chunk: 3, Position: 4, Generation: 2, Targets: []activity.Target{{Inbox: "https://a.example/inbox"}}}
	m, err := d.Queued(a, message.Sending{Queue: queue.Ordered, Can: queue.Standard.Of(queue.Ordered)})
	if err != nil || m.OrderingKey != "k\na.example" || m.DeduplicationKey != "01J/3/4/2" {
		t.Errorf("%q %q, %v", m.OrderingKey, m.DeduplicationKey, err)
	}
	if m, err = d.Queued(activity.Activity{}, message.Sending{Queue: queue.Low, Can: queue.Standard.Of(queue.Low)}); err != nil || m.OrderingKey != "" || m.DeduplicationKey != "" {
		t.Errorf("on a standard queue %q %q, %v", m.OrderingKey, m.DeduplicationKey, err)
	}
}

// TestOnAFIFOQueueNoMessageWaitsForAnother: without an ordering key each message is in a group
// of its own, and each sending of a delivery has its own deduplication key.
func TestOnAFIFOQueueNoMessageWaitsForAnother(t *testing.T) {
	a := activity.Activity{ID: "01J"}
	seen := map[string]bool{}
	for _, d := range []message.Delivery{{Chunk: 1, Position: message.Whole}, {Chunk: 2, Position: message.Whole}, {Chunk: 2, Position: 3}, {Chunk: 2, Position: 3, Generation: 1}} {
		d.Targets = []activity.Target{{Inbox: "https://a.example/inbox"}}
		for _, again := range []string{"", "m1.1", "m1.2"} {
			m, err := d.Queued(a, message.Sending{Queue: queue.Low, Can: queue.FIFO.Of(queue.Low), Copy: again})
			if err != nil || seen[m.OrderingKey] || seen[m.DeduplicationKey] || m.Check(true) != nil {
				t.Errorf("%+v: %q %q, %v", d, m.OrderingKey, m.DeduplicationKey, err)
			}
			seen[m.OrderingKey], seen[m.DeduplicationKey] = true, true
		}
	}
}

// TestAWaitIsTheQueuesOrTheMessages: a queue without delays gets a message that says when its
// work may begin, the ordered queue neither.
func TestAWaitIsTheQueuesOrTheMessages(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	a := activity.Activity{ID: "01J", Options: activity.Options{OrderingKey: "k"}}
	d := message.Delivery{Position: 1, Targets: []activity.Target{{Inbox: "https://a.example/inbox"}}}
	for _, c := range []struct {
		typ        queue.Type
		name       queue.Name
		wait       time.Duration
		delay, not time.Duration
	}{
		{queue.Standard, queue.Low, time.Minute, time.Minute, 0},
		{queue.Standard, queue.Low, time.Hour, queue.MaxDelay, 0},
		{queue.Standard, queue.Low, -time.Hour, 0, 0},
		{queue.FIFO, queue.Low, time.Minute, 0, time.Minute},
		{queue.FIFO, queue.Low, time.Hour, 0, queue.MaxDelay},
		{queue.FIFO, queue.Low, -time.Hour, 0, 0},
		{queue.FIFO, queue.Ordered, time.Minute, 0, 0},
		{queue.Standard, queue.Ordered, time.Minute, 0, 0},
	} {
		m, err := d.Queued(a, message.Sending{Queue: c.name, Can: c.typ.Of(c.name), Wait: c.wait, Now: now})
		if err == nil {
			err = m.Check(c.typ.FIFO(c.name))
		}
		in, decodeErr := message.Decode(m.Body)
		if err = errors.Join(err, decodeErr); err != nil {
			t.Errorf("%s of %s for %s: %v", c.name, c.typ, c.wait, err)
			continue
		}
		var not time.Duration
		if !in.NotBefore.IsZero() {
			not = in.NotBefore.Sub(now)
		}
		if m.Delay != c.delay || not != c.not {
			t.Errorf("%s of %s for %s: delay %s, not before %s, want %s and %s", c.name, c.typ, c.wait, m.Delay, not, c.delay, c.not)
		}
	}
}
