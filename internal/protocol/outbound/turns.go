package outbound

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// turnsEach is the number of turns for each processor. With one, a processor idles while a turn
// passes from one goroutine to the next.
const turnsEach = 2

// turns limits how many signatures and TLS handshakes are computed at once. Else 500 of them would
// share the fraction of a processor that a Lambda of 512 MB has, and all would time out, although
// the hosts answer at once.
//
// An attempt gives its turn back while it waits for the network, so a host that hangs delays nobody
// else. Attempts under way come before new ones, because their time is running. Handshakes with
// strangers, hosts that have accepted nothing lately, get half of the turns at most: a stranger
// chooses what its handshake costs.
type turns struct {
	mu        sync.Mutex
	free      int
	strangers int // how many more turns handshakes with strangers may take
	arrived   int
	waiting   [purposes]list.List // of *arrival
}

type purpose int

const (
	begun       purpose = iota // an attempt that has begun
	handshake                  // one that has begun, for a handshake with a stranger
	newAttempt                 // an attempt that is about to begin
	newStranger                // one at a stranger, which waits until no handshake does
	purposes
)

// arrival is one that waits for a turn.
type arrival struct {
	got chan struct{}
	n   int // counts the arrivals
}

func newTurns(n int) *turns {
	n = max(n, 1)
	return &turns{free: n, strangers: max(n/2, 1)}
}

// begin takes a turn if one is free for this purpose. The caller holds t.mu.
func (t *turns) begin(p purpose) bool {
	switch {
	case t.free == 0,
		p == handshake && t.strangers == 0,
		p == newStranger && t.waiting[handshake].Len() > 0:
		return false
	case p == handshake:
		t.strangers--
	}
	t.free--
	return true
}

// takeFree takes a turn if one is free.
func (t *turns) takeFree(p purpose) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begin(p)
}

// take waits for a turn, which give ends. The error wraps ErrStopped: a busy machine is not the
// host's fault.
func (t *turns) take(ctx context.Context, p purpose) error {
	t.mu.Lock()
	if t.begin(p) {
		t.mu.Unlock()
		return nil
	}
	t.arrived++
	mine := &arrival{make(chan struct{}), t.arrived}
	place := t.waiting[p].PushBack(mine)
	t.mu.Unlock()
	select {
	case <-mine.got:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	select {
	case <-mine.got: // at the same moment
		t.mu.Unlock()
		t.give(p)
	default:
		t.waiting[p].Remove(place)
		t.next()
		t.mu.Unlock()
	}
	return fmt.Errorf("%w: this machine had no processor free: %w", ErrStopped, context.Cause(ctx))
}

func (t *turns) give(p purpose) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	if p == handshake {
		t.strangers++
	}
	t.next()
}

// next hands free turns out. The caller holds t.mu.
func (t *turns) next() {
	for t.hand(begun, handshake) || t.hand(newAttempt, newStranger) {
	}
}

// hand hands a free turn to the first of two purposes that may have it, in order of arrival.
func (t *turns) hand(a, b purpose) bool {
	first, second := t.waiting[a].Front(), t.waiting[b].Front()
	if first == nil || second != nil && second.Value.(*arrival).n < first.Value.(*arrival).n {
		a, b = b, a
	}
	for _, p := range []purpose{a, b} {
		if line := &t.waiting[p]; line.Len() > 0 && t.begin(p) {
			close(line.Remove(line.Front()).(*arrival).got)
			return true
		}
	}
	return false
}

// Turn waits up to MaxWait for a turn to compute a signature for a host; done ends the turn.
// started: the attempt's time is running already. The error wraps ErrStopped.
func (c *Client) Turn(ctx context.Context, host string, started bool) (done func(), err error) {
	p := begun
	switch {
	case started:
	case c.config.proven(host):
		p = newAttempt
	default:
		p = newStranger
	}
	if !c.turns.takeFree(p) {
		ctx, cancel := context.WithTimeout(ctx, MaxWait)
		defer cancel()
		if err := c.turns.take(ctx, p); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(func() { c.turns.give(p) }), nil
}

// MaxWait is the longest that an attempt waits for a turn.
const MaxWait = 15 * time.Second

// computing is a connection during its TLS handshake. It holds a turn, except while it waits for
// the other side.
type computing struct {
	net.Conn
	ctx     context.Context
	turns   *turns // nil when the handshake is over
	purpose purpose
	held    bool
	err     error // why there was no turn; crypto/tls reports the end of its context in its place
}

func (c *computing) Read(p []byte) (int, error) {
	if c.turns == nil {
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
	c.err = c.turns.take(c.ctx, c.purpose)
	c.held = c.err == nil
	return c.err
}

func (c *computing) end() {
	if c.held {
		c.turns.give(c.purpose)
		c.held = false
	}
}
