package sqs

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fedpost/internal/engine/queue"
)

func (q *Queue) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	in := &sqs.ReceiveMessageInput{
		QueueUrl:            &q.url,
		MaxNumberOfMessages: int32(o.Max),
		WaitTimeSeconds:     seconds(o.Wait),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp,
			types.MessageSystemAttributeNameMessageGroupId, types.MessageSystemAttributeNameSequenceNumber,
		},
		MessageAttributeNames: []string{"All"},
	}
	if o.Visibility > 0 {
		in.VisibilityTimeout = seconds(o.Visibility)
	}
	if q.fifo {
		// A retry of a receive whose answer was lost gets the same messages,
		// instead of finding their groups locked.
		in.ReceiveRequestAttemptId = aws.String(rand.Text())
	}
	out, err := q.receive(ctx, in, func(opts *sqs.Options) { opts.HTTPClient = q.polling })
	if err != nil {
		return nil, fmt.Errorf("receive from the %s queue: %w", q.name, err)
	}
	var rs []queue.Received
	for _, m := range out.Messages {
		r, err := received(m)
		if err != nil {
			return nil, fmt.Errorf("receive from the %s queue: message %s: %w", q.name, aws.ToString(m.MessageId), err)
		}
		rs = append(rs, r)
	}
	return rs, nil
}

// patient returns the client's HTTP client with a time-out longer than a long
// poll. Each queue makes one and keeps it, because it has its own connections.
func patient(client *sqs.Client) aws.HTTPClient {
	c := client.Options().HTTPClient
	if b, ok := c.(*awshttp.BuildableClient); ok && b.GetTimeout() > 0 {
		return b.WithTimeout(b.GetTimeout() + queue.MaxWait)
	}
	return c
}

func received(m types.Message) (queue.Received, error) {
	count, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil {
		return queue.Received{}, fmt.Errorf("receive count: %w", err)
	}
	sent, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return queue.Received{}, fmt.Errorf("time of sending: %w", err)
	}
	r := queue.Received{
		ID:           aws.ToString(m.MessageId),
		Handle:       aws.ToString(m.ReceiptHandle),
		ReceiveCount: count,
		SentAt:       time.UnixMilli(sent),
		Sequence:     m.Attributes[string(types.MessageSystemAttributeNameSequenceNumber)],
	}
	r.Body = aws.ToString(m.Body)
	r.OrderingKey = m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
	for name, v := range m.MessageAttributes {
		if r.Attributes == nil {
			r.Attributes = make(map[string]string, len(m.MessageAttributes))
		}
		r.Attributes[name] = aws.ToString(v.StringValue)
	}
	return r, nil
}
