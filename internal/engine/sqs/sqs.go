// Package sqs is the queue port on Amazon SQS.
//
// Most of the code answers two questions. May a send that failed have happened
// all the same? A caller may roll back only if not. And which messages may share
// a request? SQS refuses a whole batch over 1 MiB, and lets the entries of a
// batch fail one by one.
package sqs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"fedpost/internal/engine/queue"
)

type Queue struct {
	url  string
	name queue.Name
	typ  queue.Type
	fifo bool

	send       call[sqs.SendMessageInput, sqs.SendMessageOutput]
	sendBatch  call[sqs.SendMessageBatchInput, sqs.SendMessageBatchOutput]
	receive    call[sqs.ReceiveMessageInput, sqs.ReceiveMessageOutput]
	remove     call[sqs.DeleteMessageInput, sqs.DeleteMessageOutput]
	hide       call[sqs.ChangeMessageVisibilityInput, sqs.ChangeMessageVisibilityOutput]
	attributes call[sqs.GetQueueAttributesInput, sqs.GetQueueAttributesOutput]

	polling aws.HTTPClient // for Receive

	// pause waits between tries of entries that failed through SQS's own fault.
	pause func(ctx context.Context, try int) error
}

// call is an operation of the client; see package dynamodb's.
type call[In, Out any] = func(context.Context, *In, ...func(*sqs.Options)) (*Out, error)

var _ queue.Queue = (*Queue)(nil)

func New(client *sqs.Client, url string, name queue.Name, typ queue.Type) *Queue {
	return &Queue{
		url: url, name: name, typ: typ, fifo: typ.FIFO(name), polling: patient(client), pause: pause,
		send: client.SendMessage, sendBatch: client.SendMessageBatch, receive: client.ReceiveMessage,
		remove: client.DeleteMessage, hide: client.ChangeMessageVisibility, attributes: client.GetQueueAttributes,
	}
}

func (q *Queue) Capabilities() queue.Capabilities { return q.typ.Of(q.name) }

// deduplicationID covers the group too: a high-throughput queue deduplicates per group, other
// queues per queue, and so the id means the same on both.
func deduplicationID(group, key string) string {
	return digest(strconv.Itoa(len(group)) + ":" + group + key)
}

// digest makes of any string an id that SQS takes: at most 128 characters of a small set.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// seconds rounds up to whole seconds, SQS's unit: a message may come late, never
// early.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

func (q *Queue) Delete(ctx context.Context, handle string) error {
	_, err := q.remove(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &handle})
	if err != nil {
		return fmt.Errorf("delete from the %s queue: %w", q.name, handleError(err))
	}
	return nil
}

// handleError marks the error of a call as queue.ErrInvalid if SQS refuses the receipt handle.
// The names of older protocols have a prefix.
func handleError(err error) error {
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		switch strings.TrimPrefix(said.ErrorCode(), "AWS.SimpleQueueService.") {
		case "ReceiptHandleIsInvalid", "MessageNotInflight",
			// The receipt handle has expired, or the message is deleted, or would be hidden for too
			// long; the second name is LocalStack's.
			"InvalidParameterValue", "InvalidParameterValueException":
			return fmt.Errorf("%w: %w", queue.ErrInvalid, err)
		}
	}
	return err
}

func (q *Queue) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	if err := queue.CheckVisibility(d); err != nil {
		return err
	}
	_, err := q.hide(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: &handle, VisibilityTimeout: seconds(d),
	})
	if err != nil {
		return fmt.Errorf("change visibility on the %s queue: %w", q.name, handleError(err))
	}
	return nil
}

func (q *Queue) Depth(ctx context.Context) (queue.Depth, error) {
	const visible, inFlight, delayed = types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed
	out, err := q.attributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{visible, inFlight, delayed},
	})
	if err != nil {
		return queue.Depth{}, fmt.Errorf("read depth of the %s queue: %w", q.name, err)
	}
	var d queue.Depth
	for name, to := range map[types.QueueAttributeName]*int{visible: &d.Visible, inFlight: &d.InFlight, delayed: &d.Delayed} {
		n, err := strconv.Atoi(cmp.Or(out.Attributes[string(name)], "0"))
		if err != nil {
			return queue.Depth{}, fmt.Errorf("read depth of the %s queue: %s: %w", q.name, name, err)
		}
		*to = n
	}
	return d, nil
}
