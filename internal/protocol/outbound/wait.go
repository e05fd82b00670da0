package outbound

import (
	"container/list"
	"context"
	"net"
	"strings"
	"time"
)

// A TLS handshake takes as much processor time as two whole deliveries, and twice that without a
// session to resume. So a request waits a little for another request's connection to the host.
const (
	// firstWait is for the first connection to a host: only after it can handshakes resume.
	firstWait = 3 * time.Second
	// busyWait is for a connection that others use or make. It is as long as a new connection
	// to a distant host takes.
	busyWait = 250 * time.Millisecond
)

// waiter is a request that waits for a connection.
type waiter struct {
	host string
	// got receives a connection, of which the waiter is a user then; or nil: the waiter makes one,
	// in place of one that has ended.
	got        chan *kept
	ticketWait chan struct{} // of the host when the wait began
	queued     *list.Element // in hostConns.waiting; guarded by pool.mu
}

// wait waits for a connection. If it returns nil, the caller makes one, which hostConns.out counts
// already.
func (p *pool) wait(ctx context.Context, w *waiter) (*kept, error) {
	all, busy := time.NewTimer(p.first), time.NewTimer(busyWait)
	defer all.Stop()
	defer busy.Stop()
	ticketWait := w.ticketWait
	for {
		late := busy.C
		if ticketWait != nil {
			late = nil
		}
		select {
		case k := <-w.got:
			return k, nil
		case <-ticketWait:
			ticketWait = nil
			busy.Reset(busyWait)
		case <-late:
			if ticketWait = p.ticketWait(w.host); ticketWait == nil {
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

func (p *pool) ticketWait(host string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[host]; h != nil {
		return h.ticketWait
	}
	return nil // the host has answered this moment
}

// leave ends a wait, and returns a connection that has just arrived.
func (p *pool) leave(w *waiter) *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.queued == nil {
		return <-w.got
	}
	h := p.hosts[w.host]
	h.waiting.Remove(w.queued)
	h.out++
	p.awaitTicket(w.host, h)
	return nil
}

// giveUp ends the wait of a request that has ended, and passes on a connection that has just
// arrived.
func (p *pool) giveUp(w *waiter) {
	p.mu.Lock()
	if w.queued != nil {
		p.hosts[w.host].waiting.Remove(w.queued)
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

// next gives k to the request that has waited longest; nil: that request makes a connection. The
// caller holds pool.mu.
func (h *hostConns) next(k *kept) {
	w := h.waiting.Remove(h.waiting.Front()).(*waiter)
	w.queued = nil
	w.got <- k
}

// awaitTicket begins the wait for a TLS session ticket if a connection is about to be made without one.
// The caller holds p.mu.
func (p *pool) awaitTicket(host string, h *hostConns) {
	address, ok := strings.CutPrefix(host, "https://")
	if !ok || h.ticketWait != nil {
		return
	}
	if name, _, err := net.SplitHostPort(address); err == nil && !p.sessions.has(name) {
		h.ticketWait = make(chan struct{})
	}
}

// ticketKnown ends the wait for a ticket. The caller holds pool.mu.
func (h *hostConns) ticketKnown() {
	if h.ticketWait != nil {
		close(h.ticketWait)
		h.ticketWait = nil
	}
}

// ticket records that the host has sent a TLS session ticket, or has refused an earlier one.
func (p *pool) ticket(host string, came bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[host]
	switch {
	case h == nil || h.out == 0:
	case came:
		h.ticketKnown()
	default:
		p.awaitTicket(host, h)
	}
}

func (p *pool) dialFailed(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[host].ticketKnown()
	p.less(host)
}

// less records that a connection with a request, or one that was being made, has ended. A waiting
// request makes another one. The caller holds p.mu.
func (p *pool) less(host string) {
	h := p.hosts[host]
	if h.waiting.Len() > 0 {
		h.next(nil)
		p.awaitTicket(host, h)
		return
	}
	if h.out--; h.out == 0 {
		h.ticketKnown()
	}
	p.tidy(host)
}

// Bounds of the wait for the goroutine that reads an HTTP/2 connection.
const (
	settleStep = time.Millisecond
	settleMost = 100 // steps
)

// ended reports whether a kept connection has ended or is about to. On HTTP/2, frames may arrive at
// any time, and only reading them shows whether the last is a GOAWAY.
func (p *pool) ended(k *kept) bool {
	gone := hungUp(k.raw)
	if !k.http2 || !gone {
		return gone
	}
	for range settleMost {
		p.pause()
		if k.conn.Err() != nil {
			return true
		}
		// Twice in a row: at the first look, what was read may not be processed yet.
		before := gone
		if gone = hungUp(k.raw); !gone && !before {
			return false
		}
	}
	return true
}
