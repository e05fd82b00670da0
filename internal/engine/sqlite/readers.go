package sqlite

import (
	"context"
	"errors"
	"sync"
)

// readers are goroutines that read, each with a session of its own. Callers do not read on
// their own goroutines, because SQLite needs a deep stack: each goroutine that reads once
// would grow its stack, which costs more than handing the read over.
type readers struct {
	jobs    chan *job
	stopped chan struct{}
	done    sync.WaitGroup

	mu     sync.Mutex
	closed error
}

func newReaders() *readers {
	return &readers{jobs: make(chan *job, room), stopped: make(chan struct{})}
}

// add starts a goroutine that reads with s until stop, and then closes s.
func (r *readers) add(s *session) {
	r.done.Go(func() {
		for {
			select {
			case j := <-r.jobs:
				if !j.taken.Swap(true) {
					j.err = j.do(s)
					close(j.done)
				}
			case <-r.stopped:
				err := s.close()
				r.mu.Lock()
				r.closed = errors.Join(r.closed, err)
				r.mu.Unlock()
				return
			}
		}
	})
}

func (r *readers) submit(ctx context.Context, do func(*session) error) error {
	return submit(ctx, r.jobs, r.stopped, newJob(read, do))
}

// stop lets the reads under way finish and closes the sessions.
func (r *readers) stop() error {
	close(r.stopped)
	r.done.Wait()
	return r.closed
}
