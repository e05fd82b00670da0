package cache

import (
	"time"

	"fedpost/internal/servers/circuit"
)

// leastRate is the least number of deliveries a minute that Rate returns.
const leastRate = 10

// Accepted counts a delivery that a host accepted.
func (h *Hosts) Accepted(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	k := h.entry(circuit.HostKey(name), now)
	if lasted(k.minute, now, time.Minute) {
		k.minute, k.last, k.count = now, k.count, 0
	}
	k.count++
	k.accepted = now
	h.place(k)
}

// Proven reports whether a host has accepted a delivery of this process lately, and failed none
// since.
func (h *Hosts) Proven(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	k, ok := h.known[circuit.HostKey(name)]
	return ok && !k.accepted.IsZero() && h.now().Sub(k.accepted) < circuit.Proof
}

// Rate returns how many deliveries of this process a host accepted in a minute; 0: too few to
// tell. ok is false if it has accepted none within the circuit's window.
func (h *Hosts) Rate(name string) (perMinute int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k, ok := h.known[circuit.HostKey(name)]
	if !ok || k.minute.IsZero() || lasted(k.minute, h.now(), h.rules.Window) {
		return 0, false
	}
	if n := max(k.count, k.last); n >= leastRate {
		return n, true
	}
	return 0, true
}
