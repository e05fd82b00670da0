package message_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// sender notes what it is sent, and fails messages by their bodies.
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
		{Queue: queue.Normal, Message: queue.Message{Body: "1"}}, {Queue: queue.High, Message: queue.Message{Body: "2"}},
		{Queue: queue.Normal, Message: queue.Message{Body: "bad"}}, {Queue: queue.High, Message: queue.Message{Body: "4"}},
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
	a := activity.Activity{ID: "01J", OrderingKey: "k"}
	d := message.Delivery{Chunk: 3, Position: 4, Generation: 2, Targets: []activity.Target{{Inbox: "https://a.example/inbox"}}}
	m, err := d.Queued(queue.Ordered, a)
	if err != nil || m.OrderingKey != "k\na.example" || m.DeduplicationKey != "01J/3/4/2" {
		t.Errorf("%q %q, %v", m.OrderingKey, m.DeduplicationKey, err)
	}
	if m, err = d.Queued(queue.Low, activity.Activity{}); err != nil || m.OrderingKey != "" || m.DeduplicationKey != "" {
		t.Errorf("on a standard queue %q %q, %v", m.OrderingKey, m.DeduplicationKey, err)
	}
}
