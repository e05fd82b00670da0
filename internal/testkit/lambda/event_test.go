package lambda

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/engine/queue"
)

func TestTheEventHasLambdasShape(t *testing.T) {
	const arn = "arn:aws:sqs:local:000000000000:fedpost-ordered"
	var got events.SQSMessage
	handle := Through(arn, func(_ context.Context, event []byte) ([]byte, error) {
		var e events.SQSEvent
		err := json.Unmarshal(event, &e)
		got = e.Records[0]
		return []byte(`{"batchItemFailures":[{"itemIdentifier":"7"}]}`), err
	})
	failed, err := handle(t.Context(), queue.Ordered, []queue.Received{{
		ID: "7", Handle: "h", ReceiveCount: 1, SentAt: time.UnixMilli(1795165200000), Sequence: "00000000000000000042",
		Message: queue.Message{Body: "hello", OrderingKey: "group", Attributes: map[string]string{"reason": "test"}},
	}})
	if err != nil || !slices.Equal(failed, []string{"7"}) {
		t.Errorf("failed are %q, %v", failed, err)
	}
	if got.Body != "hello" || got.EventSourceARN != arn || got.EventSource != "aws:sqs" || got.Md5OfBody != "5d41402abc4b2a76b9719d911017c592" ||
		got.ReceiptHandle != "h" || got.MessageId != "7" || got.Attributes["ApproximateReceiveCount"] != "1" ||
		got.Attributes["SentTimestamp"] != "1795165200000" || len(got.Attributes["SequenceNumber"]) != 20 || got.Attributes["MessageGroupId"] != "group" ||
		*got.MessageAttributes["reason"].StringValue != "test" {
		t.Errorf("record %+v", got)
	}
}
