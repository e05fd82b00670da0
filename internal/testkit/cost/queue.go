package cost

import (
	"context"
	"time"

	"fedpost/internal/engine/queue"
)

// payloadUnit is the number of bytes that SQS bills as one request.
// https://aws.amazon.com/sqs/pricing/
const payloadUnit = 64 << 10

// EstimateQueue counts the calls of q as requests to SQS.
//
// A receive that returns no message is not counted: the number of such receives does
// not depend on the deliveries, and on AWS the event sources of Lambda make them.
func EstimateQueue(c *Estimate, q queue.Queue) queue.Queue { return &countedQueue{q, c} }

type countedQueue struct {
	queue.Queue
	c *Estimate
}

func (q *countedQueue) call(operation string, bytes int, err error) {
	u := Usage{Requests: 1, PayloadUnits: unitsBegun(bytes, payloadUnit)}
	if err != nil {
		u.Failures = 1
	}
	q.c.add("SQS", operation, u)
}

func (q *countedQueue) Send(ctx context.Context, m queue.Message) error {
	err := q.Queue.Send(ctx, m)
	q.call("SendMessage", m.Size(), err)
	return err
}

// SendBatch counts one request per batch that fits within the limits of SQS.
func (q *countedQueue) SendBatch(ctx context.Context, ms []queue.Message) []error {
	errs := q.Queue.SendBatch(ctx, ms)
	n, bytes := 0, 0
	for _, m := range ms {
		if n == queue.MaxBatch || n > 0 && bytes+m.Size() > queue.MaxBytes {
			q.call("SendMessageBatch", bytes, nil)
			n, bytes = 0, 0
		}
		n, bytes = n+1, bytes+m.Size()
	}
	if n > 0 {
		q.call("SendMessageBatch", bytes, nil)
	}
	return errs
}

func (q *countedQueue) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	rs, err := q.Queue.Receive(ctx, o)
	bytes := 0
	for _, r := range rs {
		bytes += r.Size()
	}
	if len(rs) > 0 {
		q.call("ReceiveMessage", bytes, err)
	}
	return rs, err
}

func (q *countedQueue) Delete(ctx context.Context, handle string) error {
	err := q.Queue.Delete(ctx, handle)
	q.call("DeleteMessage", 0, err)
	return err
}

func (q *countedQueue) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	err := q.Queue.ChangeVisibility(ctx, handle, d)
	q.call("ChangeMessageVisibility", 0, err)
	return err
}
