package outbound

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// turns gives out the processors for what takes long: signatures and TLS
// handshakes. Without it 500 of them share a fraction of a processor, as a
// Lambda of 512 MB has, each takes as long as all of them, and all run into the
// time-outs of hosts that answered at once.
//
// A turn lasts for computing only: who waits for the network gives it back, so a
// host that hangs holds up nobody. Who has begun comes before who has not, so
// that little is under way whose time is running.
type turns struct {
	mu     sync.Mutex
	free   int
	begun  list.List // of chan struct{}: waiting to go on
	unborn list.List // of chan struct{}: waiting to begin
}

func newTurns(n int) *turns { return &turns{free: max(n, 1)} }

// take waits for a turn, which give ends. begun says that the work of which this
// is a part has begun.
func (t *turns) take(ctx context.Context, begun bool) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	line := &t.unborn
	if begun {
		line = &t.begun
	}
	mine := make(chan struct{})
	place := line.PushBack(mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	select {
	case <-mine: // at the same moment
		t.mu.Unlock()
		t.give()
	default:
		line.Remove(place)
		t.mu.Unlock()
	}
	return context.Cause(ctx)
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range []*list.List{&t.begun, &t.unborn} {
		if first := line.Front(); first != nil {
			close(line.Remove(first).(chan struct{}))
			return
		}
	}
	t.free++
}

// Turn waits until this machine has a processor for another signature, at most
// for MaxWait, and returns what gives it back. begun says that the attempt of
// which the signature is a part has begun, so that its time is running. An error
// wraps ErrStopped: that a machine is busy says nothing about a host.
func (c *Client) Turn(ctx context.Context, begun bool) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	if err := c.turns.take(ctx, begun); err != nil {
		return nil, fmt.Errorf("%w: this machine had no processor free: %w", ErrStopped, err)
	}
	return sync.OnceFunc(c.turns.give), nil
}

// MaxWait is the longest that an attempt waits for a processor.
const MaxWait = 15 * time.Second

// computing is a connection during the TLS handshake: it holds a turn, but for
// the time in which it waits for the other side.
type computing struct {
	net.Conn
	ctx   context.Context
	turns *turns // nil when the handshake is over
	held  bool
}

func (c *computing) Read(p []byte) (int, error) {
	if c.turns == nil {
		return c.Conn.Read(p)
	}
	c.end()
	n, err := c.Conn.Read(p)
	if turnErr := c.begin(); turnErr != nil && err == nil {
		err = turnErr
	}
	return n, err
}

func (c *computing) begin() error {
	err := c.turns.take(c.ctx, true)
	c.held = err == nil
	return err
}

func (c *computing) end() {
	if c.held {
		c.turns.give()
		c.held = false
	}
}
