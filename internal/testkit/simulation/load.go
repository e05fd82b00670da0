package simulation

import (
	"context"
	"runtime"
	"sync/atomic"

	"fedpost/internal/engine/queue"
)

// work is a kind of what processes have under way.
type work int

const (
	messages work = iota // that are worked on or being deleted
	attempts             // and other requests to servers
	requests             // to the API
	runs                 // of the schedule
	saves                // and other calls that belong to none of these
	works
)

// load counts what is under way.
type load [works]atomic.Int64

func (l *load) none() bool {
	for w := range works {
		if l[w].Load() > 0 {
			return false
		}
	}
	return true
}

// begins counts n of a kind, until the function that it returns is called.
func (p *process) begins(w work, n int) (ends func()) {
	p.load[w].Add(int64(n))
	p.sim.load[w].Add(int64(n))
	return func() {
		p.load[w].Add(int64(-n))
		p.sim.load[w].Add(int64(-n))
	}
}

// handle counts the messages of a batch while the process works on them.
func (p *process) handle(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
	defer p.begins(messages, len(batch))()
	return p.work(ctx, from, batch)
}

// settled is a queue whose messages count while they are being deleted.
type settled struct {
	queue.Queue
	p *process
}

// Delete implements queue.Queue.
func (q settled) Delete(ctx context.Context, handle string) error {
	defer q.p.begins(messages, 1)()
	return q.Queue.Delete(ctx, handle)
}

// checkGoroutines checks that there are no more goroutines than what is under way needs: none for
// a host, an inbox, a key or an activity that is merely known. It is called while all are held, so
// the same seed has the same number each time.
func (s *sim) checkGoroutines() {
	processes := len(s.scenario.Processes)
	most := mostGoroutines * processes
	for w, each := range goroutinesEach {
		most += each * int(s.load[w].Load())
	}
	if n := runtime.NumGoroutine() - s.others - int(s.actors.Load()); n > most {
		s.fail("goroutines", "%d goroutines for %d messages, %d attempts, %d requests to the API, %d scheduled runs and %d saves under way (at most %d)",
			n, s.load[messages].Load(), s.load[attempts].Load(), s.load[requests].Load(), s.load[runs].Load(), s.load[saves].Load(), most)
	}
	if n := int(s.load[saves].Load()); n > mostSaves*processes {
		s.fail("goroutines", "%d states of hosts are being saved at once (at most %d)", n, mostSaves*processes)
	}
}
