package sqlite

import "context"

// job is what a goroutine with a session does for a caller.
type job struct {
	do   func(*session) error
	err  error
	done chan struct{}
}

// submit hands a job over and waits for its end. jobs has no buffer: a caller that gives
// up before its job was taken knows that the job was not run, and a caller whose job was
// taken waits for its end.
func submit(ctx context.Context, jobs chan<- *job, stopped <-chan struct{}, do func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-stopped:
		return ErrClosed
	default:
	}
	j := &job{do: do, done: make(chan struct{})}
	select {
	case jobs <- j:
		<-j.done
		return j.err
	case <-stopped:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
