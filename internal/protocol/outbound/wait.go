package outbound

import (
	"container/list"
	"context"
	"net"
	"strings"
	"time"
)

// A TLS handshake takes as much processor time as two whole deliveries on a connection that
// exists, and twice that without a session to resume. So a request waits a little for a
// connection of another request to the same host rather than making a second one.
const (
	// firstWait is how long a request waits while another one makes the first connection to
	// the host: only what that one learns makes a resumed handshake possible.
	firstWait = 3 * time.Second
	// busyWait is how long a request waits for a connection that others use or make. It is
	// as long as a new connection to a distant host would take.
	busyWait = 250 * time.Millisecond
)

// waiter is a request that waits for a connection.
type waiter struct {
	host string
	// got receives a connection, which counts the waiter among its users, or nil: the
	// waiter makes one itself, in the place of one that is gone.
	got     chan *kept
	meeting chan struct{} // of the host when the wait began
	place   *list.Element // in place.waiting; guarded by pool.mu
}

// wait waits for a connection. Without one, the caller makes a connection, which is counted
// in place.out already.
func (p *pool) wait(ctx context.Context, w *waiter) (*kept, error) {
	all, busy := time.NewTimer(p.first), time.NewTimer(p.patience)
	defer all.Stop()
	defer busy.Stop()
	meeting := w.meeting
	for {
		late := busy.C
		if meeting != nil {
			late = nil
		}
		select {
		case k := <-w.got:
			return k, nil
		case <-meeting:
			meeting = nil
			busy.Reset(p.patience)
		case <-late:
			if meeting = p.meeting(w.host); meeting == nil {
				return p.leave(w), nil
			}
		case <-all.C:
			return p.leave(w), nil
		case <-ctx.Done():
			p.giveUp(w)
			return nil, context.Cause(ctx)
		}
	}
}

// meeting is the meeting with a host for which a request waits.
func (p *pool) meeting(host string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[host]; h != nil {
		return h.meeting
	}
	return nil // the host has answered this moment
}

// leave ends a wait and returns what has arrived at the same moment.
func (p *pool) leave(w *waiter) *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place == nil {
		return <-w.got
	}
	h := p.hosts[w.host]
	h.waiting.Remove(w.place)
	h.out++
	p.meet(w.host, h)
	return nil
}

// giveUp ends a wait whose request needs no connection any more, and passes on what has
// arrived at the same moment.
func (p *pool) giveUp(w *waiter) {
	p.mu.Lock()
	if w.place != nil {
		p.hosts[w.host].waiting.Remove(w.place)
		p.mu.Unlock()
		return
	}
	k := <-w.got
	if k == nil {
		p.less(w.host)
	}
	p.mu.Unlock()
	if k != nil {
		p.put(k)
	}
}

// next hands k, or the task to make a connection if k is nil, to the request that has waited
// for longest. The caller holds pool.mu.
func (h *place) next(k *kept) {
	w := h.waiting.Remove(h.waiting.Front()).(*waiter)
	w.place = nil
	w.got <- k
}

// meet begins a meeting with a host to which a connection is about to be made, if there is
// no TLS session to resume. The caller holds p.mu.
func (p *pool) meet(host string, h *place) {
	address, ok := strings.CutPrefix(host, "https://")
	if !ok || h.meeting != nil {
		return
	}
	if name, _, err := net.SplitHostPort(address); err == nil && !p.sessions.has(name) {
		h.meeting = make(chan struct{})
	}
}

// met ends a meeting. The caller holds pool.mu.
func (h *place) met() {
	if h.meeting != nil {
		close(h.meeting)
		h.meeting = nil
	}
}

// ticket notes that a connection to the host has got a TLS session ticket, or that there is
// none that is of use.
func (p *pool) ticket(host string, came bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[host]
	switch {
	case h == nil || h.out == 0:
	case came:
		h.met()
	default:
		p.meet(host, h)
	}
}

// gone notes that a connection could not be made.
func (p *pool) gone(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[host].met()
	p.less(host)
}

// less notes that a connection with a request, or one that was being made, is no more. A
// request that waits makes another one. The caller holds p.mu.
func (p *pool) less(host string) {
	h := p.hosts[host]
	if h.waiting.Len() > 0 {
		h.next(nil)
		p.meet(host, h)
		return
	}
	if h.out--; h.out == 0 {
		h.met()
	}
	p.tidy(host)
}

// Bounds of the wait for the goroutine that reads an HTTP/2 connection.
const (
	settleStep = time.Millisecond
	settleMost = 100 // steps
)

// ended reports whether a kept connection has ended or is about to. On an HTTP/2 connection
// frames may arrive at any time, such as PING or WINDOW_UPDATE after an answer. Until they
// are read nobody knows whether the last of them is a farewell.
func (p *pool) ended(k *kept) bool {
	gone := hungUp(k.raw)
	if k.wire != nil || !gone {
		return gone
	}
	for range settleMost {
		p.pause()
		if k.conn.Err() != nil {
			return true
		}
		// Twice in a row, as what was read a moment ago is not understood yet.
		before := gone
		if gone = hungUp(k.raw); !gone && !before {
			return false
		}
	}
	return true
}
