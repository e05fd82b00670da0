package sqs

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/queue"
)

func (q *Queue) Send(ctx context.Context, m queue.Message) error {
	if err := m.Check(q.fifo); err != nil {
		return err
	}
	e := q.entry(m)
	var log awssdk.AttemptLog
	_, err := q.send(ctx, &sqs.SendMessageInput{
		QueueUrl:               &q.url,
		MessageBody:            e.MessageBody,
		DelaySeconds:           e.DelaySeconds,
		MessageAttributes:      e.MessageAttributes,
		MessageGroupId:         e.MessageGroupId,
		MessageDeduplicationId: e.MessageDeduplicationId,
	}, record(&log))
	return q.sendError(err, &log)
}

// entry returns m as SQS takes it, without an id.
func (q *Queue) entry(m queue.Message) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{MessageBody: &m.Body, DelaySeconds: seconds(m.Delay)}
	if m.OrderingKey != "" {
		e.MessageGroupId = aws.String(digest(m.OrderingKey))
	}
	if m.DeduplicationKey != "" {
		e.MessageDeduplicationId = aws.String(deduplicationID(m.OrderingKey, m.DeduplicationKey))
	}
	for name, value := range m.Attributes {
		if e.MessageAttributes == nil {
			e.MessageAttributes = make(map[string]types.MessageAttributeValue, len(m.Attributes))
		}
		e.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
	}
	return e
}

func record(log *awssdk.AttemptLog) func(*sqs.Options) {
	return func(o *sqs.Options) { o.APIOptions = log.AddTo(o.APIOptions) }
}

// sendError wraps err so that queue.NotSent reports whether certainly nothing was sent.
func (q *Queue) sendError(err error, log *awssdk.AttemptLog) error {
	switch {
	case err == nil:
		return nil
	case log.MayHaveActed():
		return fmt.Errorf("send to the %s queue: it may or may not be sent: %w", q.name, err)
	}
	if _, ok := errors.AsType[*types.InvalidMessageContents](err); ok {
		return fmt.Errorf("send to the %s queue: %w: %w", q.name, queue.ErrInvalid, err)
	}
	return fmt.Errorf("send to the %s queue: %w: %w", q.name, queue.ErrNotSent, err)
}
