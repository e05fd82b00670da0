// Package sqsevent translates between Lambda's event for a batch of an SQS queue
// and fedpost's own types, so that the engine knows nothing of Lambda.
//
// An unknown or empty identifier in a response, or null in place of the list, fails the whole
// batch.
//
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
package sqsevent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/engine/queue"
)

// Worker works on a batch of a queue and returns the ids of the messages that are
// not done.
type Worker interface {
	Handle(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error)
}

// Handler is a Lambda function on an SQS event source.
type Handler struct {
	Worker Worker
	// Sources maps the ARN of an event source to its queue.
	Sources map[string]queue.Name
}

// Handle implements the function. An error means a wrong configuration, never a failure of a
// remote server.
func (h Handler) Handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	byQueue := map[queue.Name][]queue.Received{}
	var names []queue.Name
	for _, r := range e.Records {
		name, ok := h.Sources[r.EventSourceARN]
		if !ok {
			return response, fmt.Errorf("event source %q is none of the configured queues; check the queue settings of the function", r.EventSourceARN)
		}
		if byQueue[name] == nil {
			names = append(names, name)
		}
		byQueue[name] = append(byQueue[name], received(r))
	}
	for _, name := range names {
		failed, err := h.Worker.Handle(ctx, name, byQueue[name])
		if err != nil {
			return response, err
		}
		for _, id := range failed {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		}
	}
	return response, nil
}

// received reads a record. Missing numbers are those of a first receive.
func received(r events.SQSMessage) queue.Received {
	m := queue.Received{
		ID:     r.MessageId,
		Handle: r.ReceiptHandle,
		Message: queue.Message{
			Body:             r.Body,
			OrderingKey:      r.Attributes["MessageGroupId"],
			DeduplicationKey: r.Attributes["MessageDeduplicationId"],
		},
		ReceiveCount: 1,
		Sequence:     r.Attributes["SequenceNumber"],
	}
	if n, err := strconv.Atoi(r.Attributes["ApproximateReceiveCount"]); err == nil && n > 0 {
		m.ReceiveCount = n
	}
	if ms, err := strconv.ParseInt(r.Attributes["SentTimestamp"], 10, 64); err == nil {
		m.SentAt = time.UnixMilli(ms).UTC()
	}
	for name, a := range r.MessageAttributes {
		if a.StringValue == nil {
			continue
		}
		if m.Attributes == nil {
			m.Attributes = make(map[string]string, len(r.MessageAttributes))
		}
		m.Attributes[name] = *a.StringValue
	}
	return m
}
