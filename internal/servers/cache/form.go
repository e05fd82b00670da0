package cache

import (
	"time"

	"fedpost/internal/servers/circuit"
)

// Form returns the signature form that a host is known to take, or "". It is a
// part of the host's shared state, so that what one process has learnt by being
// refused once, none has to learn again.
func (h *Hosts) Form(host string) string {
	return h.State(circuit.HostKey(host)).FormAt(h.now())
}

// RememberForm shares which form a host takes, until a time.
func (h *Hosts) RememberForm(host, form string, until time.Time) {
	now := h.now()
	h.Learn(circuit.HostKey(host), Lesson{Kind: "form", Apply: func(s circuit.State) circuit.State {
		return s.TakesForm(h.rules, form, until, now)
	}})
}
