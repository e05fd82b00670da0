package awstest

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fedpost/internal/engine/queue"
)

// QueueLacks returns queuetest.Harness.Lacks for the SQS server.
func QueueLacks(t testing.TB) func(name string) string { return lacks(t, SQS(t), queueGaps) }

var queueGaps = []gap[*sqs.Client]{
	{
		"changes the visibility of messages that are not in flight",
		[]string{"VisibilityOfAMessageThatIsNotInFlightIsRefused"},
		probeHidesVisible,
	},
	{
		"extends visibility beyond 12 h from the receive",
		[]string{"VisibilityIs12HoursInAllFromTheReceive"},
		probeExtendsBeyond12Hours,
	},
	{
		"refuses messages of 1 MiB",
		[]string{"BatchOfMoreThanAMebibyte", "BodyOfExactlyAMebibyte"},
		probeRefusesAMebibyte,
	},
	{
		"refuses to delete by a handle that was used or outdated",
		[]string{"DeletingTwiceIsNoError", "StaleHandleDeletes"},
		probeFencesDeletes,
	},
	{
		"answers a duplicate with the checksum of the first body, which the SDK takes for a broken answer",
		[]string{"DuplicateWithAnotherBodyIsDropped"},
		probeChecksumOfFirst,
	},
	{
		"forgets a deduplication id when its message is deleted",
		[]string{"DuplicateOfADeletedMessageIsDropped"},
		probeForgetsDeleted,
	},
	{
		"gives sequence numbers that do not grow",
		[]string{"FIFOOrderWithinAGroup", "ManyReceiversNeverShareAGroup"},
		probeRandomSequence,
	},
}

// QueueCasesExcused lists the cases that a probe can excuse.
func QueueCasesExcused() []string { return casesOf(queueGaps) }

// scratch is a queue for one probe.
type scratch struct {
	*sqs.Client
	url *string
}

func withQueue(ctx context.Context, client *sqs.Client, fifo bool, f func(scratch) (bool, error)) (found bool, err error) {
	name, attributes := name(), map[string]string{}
	if fifo {
		name += ".fifo"
		attributes["FifoQueue"] = "true"
	}
	made, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return false, err
	}
	defer func() {
		_, dropped := client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
		err = errors.Join(err, dropped)
	}()
	return f(scratch{client, made.QueueUrl})
}

// send sends a message with a group key to a FIFO queue, or, if key is empty, to a
// standard queue.
func (s scratch) send(ctx context.Context, key, body string) (*sqs.SendMessageOutput, error) {
	in := &sqs.SendMessageInput{QueueUrl: s.url, MessageBody: &body}
	if key != "" {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), &key
	}
	return s.SendMessage(ctx, in, func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })
}

// receive returns the only message on the queue; any other number is an error.
func (s scratch) receive(ctx context.Context) (types.Message, error) {
	out, err := s.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: s.url, WaitTimeSeconds: 1, VisibilityTimeout: 600, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		return types.Message{}, err
	}
	if len(out.Messages) != 1 {
		return types.Message{}, fmt.Errorf("received %d messages, want 1", len(out.Messages))
	}
	return out.Messages[0], nil
}

func (s scratch) sendAndReceive(ctx context.Context, key string) (types.Message, error) {
	if _, err := s.send(ctx, key, "x"); err != nil {
		return types.Message{}, err
	}
	return s.receive(ctx)
}

func (s scratch) hide(ctx context.Context, m types.Message, d time.Duration) error {
	_, err := s.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: s.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: int32(d / time.Second),
	})
	return err
}

func (s scratch) delete(ctx context.Context, m types.Message) error {
	_, err := s.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: s.url, ReceiptHandle: m.ReceiptHandle})
	return err
}

func probeHidesVisible(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, false, func(s scratch) (bool, error) {
		m, err := s.sendAndReceive(ctx, "")
		if err = cmp.Or(err, s.hide(ctx, m, 0)); err != nil {
			return false, err
		}
		return s.hide(ctx, m, time.Minute) == nil, nil
	})
}

func probeExtendsBeyond12Hours(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, false, func(s scratch) (bool, error) {
		m, err := s.sendAndReceive(ctx, "")
		if err != nil {
			return false, err
		}
		select { // the server's clock must move on
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		return s.hide(ctx, m, queue.MaxVisibility) == nil, nil
	})
}

func probeRefusesAMebibyte(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, false, func(s scratch) (bool, error) {
		_, err := s.send(ctx, "", strings.Repeat("x", queue.MaxBytes))
		return err != nil, nil
	})
}

func probeFencesDeletes(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, false, func(s scratch) (bool, error) {
		m, err := s.sendAndReceive(ctx, "")
		if err = cmp.Or(err, s.delete(ctx, m)); err != nil {
			return false, err
		}
		return s.delete(ctx, m) != nil, nil
	})
}

func probeChecksumOfFirst(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, true, func(s scratch) (bool, error) {
		_, err := s.send(ctx, "k", "first")
		if err != nil {
			return false, err
		}
		out, err := s.send(ctx, "k", "second")
		if err != nil {
			return false, err
		}
		sum := md5.Sum([]byte("second"))
		return aws.ToString(out.MD5OfMessageBody) != hex.EncodeToString(sum[:]), nil
	})
}

func probeForgetsDeleted(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, true, func(s scratch) (bool, error) {
		m, err := s.sendAndReceive(ctx, "k")
		if err = cmp.Or(err, s.delete(ctx, m)); err != nil {
			return false, err
		}
		if _, err := s.send(ctx, "k", "x"); err != nil {
			return false, err
		}
		_, err = s.receive(ctx)
		return err == nil, nil
	})
}

func probeRandomSequence(ctx context.Context, client *sqs.Client) (bool, error) {
	return withQueue(ctx, client, true, func(s scratch) (bool, error) {
		last := ""
		for i := range 10 {
			out, err := s.send(ctx, strconv.Itoa(i), "x")
			if err != nil {
				return false, err
			}
			this := aws.ToString(out.SequenceNumber)
			if this <= last {
				return true, nil
			}
			last = this
		}
		return false, nil
	})
}

// RepeatsReceives reports whether the server gives a receive that is repeated
// with its ReceiveRequestAttemptId the same messages.
func RepeatsReceives(t testing.TB) bool {
	t.Helper()
	repeats, err := withQueue(t.Context(), SQS(t), true, func(s scratch) (bool, error) {
		if _, err := s.send(t.Context(), "k", "x"); err != nil {
			return false, err
		}
		in := &sqs.ReceiveMessageInput{QueueUrl: s.url, ReceiveRequestAttemptId: aws.String("attempt"), VisibilityTimeout: 60}
		if _, err := s.ReceiveMessage(t.Context(), in); err != nil {
			return false, err
		}
		out, err := s.ReceiveMessage(t.Context(), in)
		return err == nil && len(out.Messages) == 1, err
	})
	if err != nil {
		t.Fatalf("probe whether the server repeats receives: %v", err)
	}
	return repeats
}
