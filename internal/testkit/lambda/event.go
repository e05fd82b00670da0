package lambda

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/app/local"
	"fedpost/internal/engine/queue"
)

// Through is the handler of a local.Mapping that stands in for Lambda's event source with an
// ARN: a batch goes to a function as the event that Lambda would send.
func Through(arn string, invoke func(ctx context.Context, event []byte) ([]byte, error)) local.Handler {
	return func(ctx context.Context, _ queue.Name, batch []queue.Received) (failed []string, err error) {
		e := events.SQSEvent{}
		for _, msg := range batch {
			e.Records = append(e.Records, record(arn, msg))
		}
		event, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		answer, err := invoke(ctx, event)
		if err != nil {
			return nil, err
		}
		var r events.SQSEventResponse
		if err := json.Unmarshal(answer, &r); err != nil {
			return nil, fmt.Errorf("answer of the function: %w", err)
		}
		for _, f := range r.BatchItemFailures {
			failed = append(failed, f.ItemIdentifier)
		}
		return failed, nil
	}
}

// record is a message as Lambda has it.
//
// https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-standard-queue-message-event
func record(arn string, msg queue.Received) events.SQSMessage {
	sum := md5.Sum([]byte(msg.Body)) // SQS's record format has an MD5; it protects nothing
	attributes := map[string]string{
		"ApproximateReceiveCount": strconv.Itoa(msg.ReceiveCount),
		"SentTimestamp":           strconv.FormatInt(msg.SentAt.UnixMilli(), 10),
	}
	if msg.Sequence != "" {
		attributes["SequenceNumber"] = msg.Sequence
		attributes["MessageGroupId"] = msg.OrderingKey
		attributes["MessageDeduplicationId"] = msg.DeduplicationKey
	}
	custom := make(map[string]events.SQSMessageAttribute, len(msg.Attributes))
	for name, value := range msg.Attributes {
		custom[name] = events.SQSMessageAttribute{StringValue: &value, DataType: "String"}
	}
	return events.SQSMessage{
		MessageId: msg.ID, ReceiptHandle: msg.Handle, Body: msg.Body, Md5OfBody: hex.EncodeToString(sum[:]),
		Attributes: attributes, MessageAttributes: custom,
		EventSourceARN: arn, EventSource: "aws:sqs", AWSRegion: "local",
	}
}
