package deliver

import (
	"fedpost/internal/engine/queue"
)

// retrying bounds, queue by queue, in how many invocations of this process retries
// are under way. A missing queue has no bound.
type retrying map[queue.Name]chan struct{}

func newRetrying(most func(queue.Name) int) retrying {
	r := retrying{}
	for _, n := range queue.Names {
		if most == nil || most(n) <= 0 {
			continue
		}
		r[n] = make(chan struct{}, most(n))
	}
	return r
}

// mayRetry reports whether this invocation may make retries. If so, it counts as an
// invocation with retries until it ends.
func (v *invocation) mayRetry() bool {
	places, bounded := v.retrying[v.from]
	if !bounded {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.retries {
		select {
		case places <- struct{}{}:
			v.retries = true
		default:
		}
	}
	return v.retries
}

// noMoreRetries ends what mayRetry has begun.
func (v *invocation) noMoreRetries() {
	if v.retries {
		<-v.retrying[v.from]
	}
}

// isRetry reports whether a target is a retry that may wait so that first sends go ahead. A
// trial may not, because it decides about many other deliveries. A retry on a FIFO queue
// may not, because each receive counts there, and it holds up its own group only.
func (u *unit) isRetry(j *job) bool {
	return u.single() && j.tries() > 0 && !u.d.Trial && !u.from.Ordered()
}
