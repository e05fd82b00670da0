package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/engine/queue"
)

// Handler is a function that takes batches of a queue, as a Lambda function does.
type Handler func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Mapping connects one queue to a handler, as Lambda's SQS event source mapping
// does: it receives, calls the handler with the event that Lambda would send, and
// deletes the messages that the handler did not report as failed. Its rules are
// Lambda's, the harsh ones included: a response that names a message which was not
// in the batch fails the whole batch.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
type Mapping struct {
	Queue queue.Queue
	Name  queue.Name
	// ARN is the eventSourceARN of the records that the handler gets.
	ARN string
	// BatchSize is the most messages of one invocation, up to queue.MaxBatch.
	BatchSize int
	// Concurrency is how many invocations run at once. Each queue has its own
	// number, so that a flood in one queue does not starve another.
	Concurrency int
	// Timeout is the deadline that the handler's context carries, like the Lambda
	// function's timeout.
	Timeout time.Duration
	Handler Handler
	Log     *slog.Logger
}

// pollWait is SQS's longest long poll.
const pollWait = 20 * time.Second

// Run serves the mapping until ctx ends, then waits for the invocations under
// way. After a queue could not be read, Run tries again with growing pauses: an
// outage of the store must not end the process.
func (m Mapping) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range m.Concurrency {
		wg.Go(func() { m.worker(ctx) })
	}
	wg.Wait()
}

func (m Mapping) worker(ctx context.Context) {
	const longest = 10 * time.Second
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		if err := m.poll(ctx, pollWait); err != nil && ctx.Err() == nil {
			m.Log.ErrorContext(ctx, "event source", "queue", m.Name, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = 100 * time.Millisecond
	}
}

// PollOnce receives one batch without waiting, runs the handler and deletes the
// messages that are done. It returns the number of messages received.
func (m Mapping) PollOnce(ctx context.Context) (int, error) { return m.pollN(ctx, 0) }

func (m Mapping) poll(ctx context.Context, wait time.Duration) error {
	_, err := m.pollN(ctx, wait)
	return err
}

func (m Mapping) pollN(ctx context.Context, wait time.Duration) (int, error) {
	batch, err := m.Queue.Receive(ctx, queue.ReceiveOptions{Max: m.BatchSize, Wait: wait})
	if err != nil {
		return 0, fmt.Errorf("receive: %w", err)
	}
	if len(batch) == 0 {
		return 0, nil
	}
	// A stop must not cut off deliveries under way, which have the function's own
	// deadline.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.Timeout)
	defer cancel()
	response, err := m.invoke(call, m.event(batch))
	if err != nil {
		return len(batch), fmt.Errorf("handler: %w", err)
	}
	return len(batch), m.settle(call, batch, response)
}

// invoke catches a panic as Lambda does: the batch fails, and the process goes on
// serving other queues.
func (m Mapping) invoke(ctx context.Context, e events.SQSEvent) (r events.SQSEventResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return m.Handler(ctx, e)
}

// settle deletes what the handler did not report as failed.
func (m Mapping) settle(ctx context.Context, batch []queue.Received, r events.SQSEventResponse) error {
	failed, err := failures(batch, r)
	if err != nil {
		return err
	}
	// At once, because the embedded engine writes what comes together with one sync.
	errs := make([]error, len(batch))
	var deletes sync.WaitGroup
	for i, msg := range batch {
		if failed[msg.ID] {
			continue
		}
		remove := func() {
			if err := m.Queue.Delete(ctx, msg.Handle); err != nil {
				// The message comes back after its visibility timeout, and is then
				// recognized as done.
				errs[i] = fmt.Errorf("delete %s: %w", msg.ID, err)
			}
		}
		if len(batch) == 1 {
			remove()
			continue
		}
		deletes.Go(remove)
	}
	deletes.Wait()
	return errors.Join(errs...)
}

// failures reads the handler's response by Lambda's rules.
func failures(batch []queue.Received, r events.SQSEventResponse) (map[string]bool, error) {
	known := make(map[string]bool, len(batch))
	for _, msg := range batch {
		known[msg.ID] = true
	}
	failed := make(map[string]bool, len(r.BatchItemFailures))
	for _, f := range r.BatchItemFailures {
		if !known[f.ItemIdentifier] {
			return nil, fmt.Errorf("response names message %q, which was not in the batch: the whole batch failed", f.ItemIdentifier)
		}
		failed[f.ItemIdentifier] = true
	}
	return failed, nil
}
