package sqlite

import (
	"context"
	"sync/atomic"

	"fedpost/internal/engine/queue"
)

// job is what a goroutine with a session does for a caller.
type job struct {
	do    func(*session) error
	kind  kind
	to    queue.Name  // the queue to which it sends one message that is visible; empty: none
	taken atomic.Bool // by the goroutine that does it, or by its caller, who gave up before
	err   error
	done  chan struct{}
}

func newJob(k kind, do func(*session) error) *job {
	return &job{do: do, kind: k, done: make(chan struct{})}
}

// kind is what a caller waits for. The writer does its jobs in this order.
type kind int

const (
	read    kind = iota // nothing: do does not write
	written             // a commit
	synced              // a commit that has reached the disk
)

// room is how many jobs wait without their callers waking up when they are taken.
const room = 256

// submit hands a job over and waits for its end. A caller that gives up before its job was
// taken knows that the job was not run, and a caller whose job was taken waits for its end.
func submit(ctx context.Context, jobs chan<- *job, stopped <-chan struct{}, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case jobs <- j:
	case <-stopped:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	err := ErrClosed
	select {
	case <-j.done:
		return j.err
	case <-stopped:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !j.taken.Swap(true) {
		return err
	}
	<-j.done
	return j.err
}
