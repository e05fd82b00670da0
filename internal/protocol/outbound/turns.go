package outbound

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// turnsEach is how many turns there are for each processor. With one, a processor stood
// idle while a turn passed from one goroutine to the next: 6 % of the rate of a fan-out
// whose signatures OpenSSL makes.
const turnsEach = 2

// turns limits how many signatures and TLS handshakes are computed at once, to turnsEach for
// each processor. Without that limit 500 of them would share the fraction of a processor
// that a Lambda of 512 MB has; each would take as long as all of them together, and
// deliveries to hosts that answered at once would time out.
//
// An attempt holds a turn only while it computes and gives the turn back while it waits
// for the network, so a host that hangs delays nobody else. Attempts that have begun get a
// turn before new attempts, because the time of an attempt runs once it has begun.
type turns struct {
	mu     sync.Mutex
	free   int
	begun  list.List // of chan struct{}: waiting to go on
	unborn list.List // of chan struct{}: waiting to begin
}

func newTurns(n int) *turns { return &turns{free: max(n, 1)} }

// takeFree takes a turn if one is free.
func (t *turns) takeFree() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 {
		return false
	}
	t.free--
	return true
}

// take waits for a turn; give ends the turn. begun says that the attempt that needs the
// turn has begun already.
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

// Turn waits for a turn to compute a signature, at most for MaxWait. Call done to give the
// turn back. begun says that the attempt that needs the signature has begun already, so that
// the attempt's time is running. The error wraps ErrStopped, because a busy machine says
// nothing about a host.
func (c *Client) Turn(ctx context.Context, begun bool) (done func(), err error) {
	if c.turns.takeFree() {
		return sync.OnceFunc(c.turns.give), nil
	}
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	if err := c.turns.take(ctx, begun); err != nil {
		return nil, fmt.Errorf("%w: this machine had no processor free: %w", ErrStopped, err)
	}
	return sync.OnceFunc(c.turns.give), nil
}

// MaxWait is the longest that an attempt waits for a turn.
const MaxWait = 15 * time.Second

// computing is a connection during the TLS handshake. It holds a turn, but gives the turn
// back while it waits for the other side.
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
