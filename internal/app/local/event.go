package local

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/engine/queue"
)

// event returns the batch as Lambda would send it.
//
// https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-standard-queue-message-event
func (m Mapping) event(batch []queue.Received) events.SQSEvent {
	e := events.SQSEvent{Records: make([]events.SQSMessage, 0, len(batch))}
	for _, msg := range batch {
		e.Records = append(e.Records, m.record(msg))
	}
	return e
}

func (m Mapping) record(msg queue.Received) events.SQSMessage {
	sum := md5.Sum([]byte(msg.Body)) // SQS's record format has an MD5; it protects nothing
	attributes := map[string]string{
		"ApproximateReceiveCount": strconv.Itoa(msg.ReceiveCount),
		"SentTimestamp":           strconv.FormatInt(msg.SentAt.UnixMilli(), 10),
	}
	if m.Queue.Capabilities().NativeDeduplication {
		attributes["SequenceNumber"] = msg.Sequence
		attributes["MessageGroupId"] = msg.OrderingKey
		attributes["MessageDeduplicationId"] = msg.DeduplicationKey
	}
	custom := make(map[string]events.SQSMessageAttribute, len(msg.Attributes))
	for name, value := range msg.Attributes {
		custom[name] = events.SQSMessageAttribute{StringValue: &value, DataType: "String"}
	}
	return events.SQSMessage{
		MessageId:         msg.ID,
		ReceiptHandle:     msg.Handle,
		Body:              msg.Body,
		Md5OfBody:         hex.EncodeToString(sum[:]),
		Attributes:        attributes,
		MessageAttributes: custom,
		EventSourceARN:    m.ARN,
		EventSource:       "aws:sqs",
		AWSRegion:         "local",
	}
}
