package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
)

// Handler works on a batch of a queue and returns the ids of the messages that are not done.
type Handler func(ctx context.Context, from queue.Name, batch []queue.Received) (failed []string, err error)

// Mapping connects one queue to a handler, as Lambda's SQS event source mapping does: it
// receives, calls the handler, and deletes the messages that the handler did not report as
// failed. A response with an unknown message fails the whole batch, as on Lambda.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
type Mapping struct {
	Queue queue.Queue
	Name  queue.Name
	// BatchSize is the most messages that are received at once, up to queue.MaxBatch.
	BatchSize int
	// Messages is how many messages Run has under way at once at most.
	Messages int
	// Timeout of one call of the handler, like the Lambda function's.
	Timeout time.Duration
	Handler Handler
	// Ready, if not nil, waits before each receive while the handler takes nothing more of the
	// queue.
	Ready func(context.Context, queue.Name)
	Log   *slog.Logger
}

const (
	// pollWait is SQS's longest long poll.
	pollWait = 20 * time.Second
	// pollers is how many receives Run has under way at once.
	pollers = 4
	// shortestPause and longestPause are between the tries of a call that a queue refuses.
	shortestPause, longestPause = 100 * time.Millisecond, 10 * time.Second
	// failurePause is how long messages keep their permits after their invocation failed, so
	// that a handler that always fails does not empty the queue quickly.
	failurePause = time.Second
)

// Run serves the mapping until ctx ends, then waits for the invocations under way. After a failed
// receive it tries again, with back-off.
//
// Each message, or on an ordered queue each group of a batch, is an invocation of its own: an
// invocation of ten messages waits for the slowest, so hanging servers would hold most
// invocations. Lambda gets whole batches, because invocations cost money.
func (m Mapping) Run(ctx context.Context) {
	permits := make(chan struct{}, m.Messages)
	var under sync.WaitGroup
	for range min(pollers, max(1, m.Messages/m.BatchSize)) {
		under.Go(func() { m.receive(ctx, permits, &under) })
	}
	under.Wait()
}

// receive is a poller. It receives only as many messages as it has permits for.
func (m Mapping) receive(ctx context.Context, permits chan struct{}, under *sync.WaitGroup) {
	pause := shortestPause
	for {
		n := m.take(ctx, permits)
		if n == 0 {
			return
		}
		if m.Ready != nil {
			m.Ready(ctx, m.Name)
		}
		batch, err := m.Queue.Receive(ctx, queue.ReceiveOptions{Max: n, Wait: pollWait})
		release(permits, n-len(batch))
		for _, group := range m.groups(batch) {
			under.Go(func() {
				defer release(permits, len(group))
				if err := m.serve(ctx, group, m.remove); err != nil {
					m.Log.ErrorContext(ctx, "messages of a queue failed", "queue", m.Name, "error", err)
					sleep(ctx, failurePause)
				}
			})
		}
		if err == nil {
			pause = shortestPause
			continue
		}
		if ctx.Err() == nil {
			m.Log.ErrorContext(ctx, "cannot receive from a queue", "queue", m.Name, "error", err)
		}
		sleep(ctx, pause)
		pause = min(2*pause, longestPause)
	}
}

// take waits for a permit and takes all that are free, up to a batch; 0: ctx has ended.
func (m Mapping) take(ctx context.Context, permits chan struct{}) (n int) {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case permits <- struct{}{}:
	}
	for n = 1; n < m.BatchSize; n++ {
		select {
		case permits <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

func release(permits chan struct{}, n int) {
	for range n {
		<-permits
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// groups splits a batch into groups whose order matters, or single messages.
func (m Mapping) groups(batch []queue.Received) (all [][]queue.Received) {
	groupOf := map[string]int{}
	for _, msg := range batch {
		at, known := groupOf[msg.OrderingKey]
		if !known || !m.Name.Ordered() {
			at = len(all)
			all = append(all, nil)
			groupOf[msg.OrderingKey] = at
		}
		all[at] = append(all[at], msg)
	}
	return all
}

// PollOnce handles one batch as a whole, as Lambda does, and returns its number of messages. It
// does not wait for messages.
func (m Mapping) PollOnce(ctx context.Context) (int, error) {
	batch, err := m.Queue.Receive(ctx, queue.ReceiveOptions{Max: m.BatchSize})
	if err != nil {
		return 0, fmt.Errorf("receive: %w", err)
	}
	if len(batch) == 0 {
		return 0, nil
	}
	return len(batch), m.serve(ctx, batch, m.removeOnce)
}

// serve calls the handler for a batch, and settles it. A stop does not cancel it, only Timeout
// does.
func (m Mapping) serve(running context.Context, batch []queue.Received, remove remover) error {
	ctx := context.WithoutCancel(running)
	within, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	failed, err := m.invoke(within, batch)
	if err != nil {
		return fmt.Errorf("handler: %w", err)
	}
	// The handler may have outlasted its deadline.
	ctx, settled := context.WithTimeout(ctx, m.Timeout)
	defer settled()
	return settle(batch, failed, func(r queue.Received) error { return remove(ctx, running, r) })
}

// remover deletes a message, within ctx, while the process is running.
type remover = func(ctx, running context.Context, r queue.Received) error

func (m Mapping) removeOnce(ctx, _ context.Context, r queue.Received) error {
	return m.Queue.Delete(ctx, r.Handle)
}

// remove tries again until the queue takes the call: a message that stays would hold up its
// group until its visibility timeout ends.
func (m Mapping) remove(ctx, running context.Context, r queue.Received) error {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := m.removeOnce(ctx, running, r)
		if err == nil || queue.Refused(err) {
			return err
		}
		sleep(running, pause)
		if running.Err() != nil || ctx.Err() != nil {
			return err
		}
	}
}

// invoke turns a panic into an error.
func (m Mapping) invoke(ctx context.Context, batch []queue.Received) (failed []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return m.Handler(ctx, m.Name, batch)
}

// settle deletes what the handler did not report as failed.
func settle(batch []queue.Received, ids []string, remove func(queue.Received) error) error {
	failed, err := failures(batch, ids)
	if err != nil {
		return err
	}
	// Concurrently, as the embedded engine syncs concurrent writes together.
	errs := make([]error, len(batch))
	var deletes sync.WaitGroup
	for i, msg := range batch {
		if failed[msg.ID] {
			continue
		}
		settled := func() {
			if err := remove(msg); err != nil {
				// The message is received again, and is then recognised as done.
				errs[i] = fmt.Errorf("delete %s: %w", msg.ID, err)
			}
		}
		if len(batch) == 1 {
			settled()
			continue
		}
		deletes.Go(settled)
	}
	deletes.Wait()
	return errors.Join(errs...)
}

// failures reads the handler's response by Lambda's rules.
func failures(batch []queue.Received, ids []string) (map[string]bool, error) {
	known := make(map[string]bool, len(batch))
	for _, msg := range batch {
		known[msg.ID] = true
	}
	failed := make(map[string]bool, len(ids))
	for _, id := range ids {
		if !known[id] {
			return nil, fmt.Errorf("response names message %q, which was not in the batch: the whole batch failed", id)
		}
		failed[id] = true
	}
	return failed, nil
}
