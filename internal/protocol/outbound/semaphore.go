package outbound

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// permitsEach is the number of permits for each processor. With one, a processor idles while a permit
// passes from one goroutine to the next.
const permitsEach = 2

// semaphore limits how many signatures and TLS handshakes are computed at once. Else 500 of them would
// share the fraction of a processor that a Lambda of 512 MB has, and all would time out, although
// the hosts answer at once.
//
// An attempt gives its permit back while it waits for the network, so a host that hangs delays nobody
// else. Attempts under way come before new ones, because their time is running. Handshakes with
// strangers, hosts that have accepted nothing lately, get half of the permits at most: a stranger
// chooses what its handshake costs.
type semaphore struct {
	mu        sync.Mutex
	free      int
	strangers int // how many more permits handshakes with strangers may take
	arrived   int
	waiting   [purposes]list.List // of *arrival
}

type purpose int

const (
	begun       purpose = iota // an attempt that has begun
	handshake                  // one that has begun, for a handshake with a stranger
	newAttempt                 // an attempt that is about to begin
	newStranger                // one at a stranger: it comes after all handshakes with strangers
	purposes
)

// arrival is one that waits for a permit.
type arrival struct {
	got chan struct{}
	n   int // counts the arrivals
}

func newSemaphore(n int) *semaphore {
	n = max(n, 1)
	return &semaphore{free: n, strangers: max(n/2, 1)}
}

// grant takes a permit if one is free for this purpose. The caller holds s.mu.
func (s *semaphore) grant(p purpose) bool {
	switch {
	case s.free == 0,
		p == handshake && s.strangers == 0,
		p == newStranger && s.waiting[handshake].Len() > 0:
		return false
	case p == handshake:
		s.strangers--
	}
	s.free--
	return true
}

// acquire waits for a permit, which release ends. The error wraps ErrStopped: a busy machine is not the
// host's fault.
func (s *semaphore) acquire(ctx context.Context, p purpose) error {
	s.mu.Lock()
	if s.grant(p) {
		s.mu.Unlock()
		return nil
	}
	s.arrived++
	mine := &arrival{make(chan struct{}), s.arrived}
	element := s.waiting[p].PushBack(mine)
	s.mu.Unlock()
	select {
	case <-mine.got:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case <-mine.got: // at the same moment
		s.mu.Unlock()
		s.release(p)
	default:
		s.waiting[p].Remove(element)
		s.next()
		s.mu.Unlock()
	}
	return fmt.Errorf("%w: this machine had no processor free: %w", ErrStopped, context.Cause(ctx))
}

func (s *semaphore) release(p purpose) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if p == handshake {
		s.strangers++
	}
	s.next()
}

// next hands free permits out. The caller holds s.mu.
func (s *semaphore) next() {
	for s.grantFirst(begun, handshake) || s.grantFirst(newAttempt, newStranger) {
	}
}

// grantFirst hands a free permit to the first of two purposes that may have it, in order of arrival.
func (s *semaphore) grantFirst(a, b purpose) bool {
	first, second := s.waiting[a].Front(), s.waiting[b].Front()
	if first == nil || second != nil && second.Value.(*arrival).n < first.Value.(*arrival).n {
		a, b = b, a
	}
	for _, p := range []purpose{a, b} {
		if queue := &s.waiting[p]; queue.Len() > 0 && s.grant(p) {
			close(queue.Remove(queue.Front()).(*arrival).got)
			return true
		}
	}
	return false
}

// Acquire waits up to MaxWait for a permit to compute a signature for a host; done ends the permit.
// started: the attempt's time is running already. The error wraps ErrStopped.
func (c *Client) Acquire(ctx context.Context, host string, started bool) (done func(), err error) {
	p := begun
	switch {
	case started:
	case c.config.proven(host):
		p = newAttempt
	default:
		p = newStranger
	}
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	if err := c.semaphore.acquire(ctx, p); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { c.semaphore.release(p) }), nil
}

// MaxWait is the longest that an attempt waits for a permit.
const MaxWait = 15 * time.Second

// computing is a connection during its TLS handshake. It holds a permit, except while it waits for
// the other side.
type computing struct {
	net.Conn
	ctx       context.Context
	semaphore *semaphore // nil when the handshake is over
	purpose   purpose
	held      bool
	err       error // why there was no permit; crypto/tls reports the end of its context in its place
}

func (c *computing) Read(p []byte) (int, error) {
	if c.semaphore == nil {
		return c.Conn.Read(p)
	}
	c.end()
	n, err := c.Conn.Read(p)
	if err == nil {
		err = c.begin()
	}
	return n, err
}

func (c *computing) begin() error {
	c.err = c.semaphore.acquire(c.ctx, c.purpose)
	c.held = c.err == nil
	return c.err
}

func (c *computing) end() {
	if c.held {
		c.semaphore.release(c.purpose)
		c.held = false
	}
}
