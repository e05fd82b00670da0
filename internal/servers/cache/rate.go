package cache

import (
	"time"

	"fedpost/internal/servers/circuit"
)

// leastRate is how many requests a minute this process has to have sent to a host
// for that to say anything about the rate at which all processes do.
const leastRate = 60

// Sent counts a request to a host.
func (h *Hosts) Sent(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	k := h.entry(circuit.HostKey(name), now)
	if now.Sub(k.minute) >= time.Minute {
		k.minute, k.last, k.count = now, k.count, 0
	}
	k.count++
}

// Rate returns how many requests a host was sent in a minute lately, or 0 if that
// is not known.
func (h *Hosts) Rate(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	k, ok := h.known[circuit.HostKey(name)]
	if !ok {
		return 0
	}
	if n := max(k.count, k.last); n >= leastRate {
		return n
	}
	return 0
}
