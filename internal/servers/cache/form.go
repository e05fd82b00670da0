package cache

import (
	"context"
	"time"

	"fedpost/internal/servers/circuit"
)

// formTimeout bounds the write that shares a host's signature form. It is made
// in the middle of an attempt that has succeeded, which must not wait for it.
const formTimeout = 2 * time.Second

// Form returns the signature form that a host is known to take, or "". It is a
// part of the host's shared state, so that what one process has learnt by being
// refused once, none has to learn again.
func (h *Hosts) Form(host string) string {
	return h.State(circuit.HostKey(host)).FormAt(h.now())
}

// RememberForm shares which form a host takes, until a time. That it could not
// costs one more request next time, so it is logged and no error.
func (h *Hosts) RememberForm(host, form string, until time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), formTimeout)
	defer cancel()
	err := h.Change(ctx, circuit.HostKey(host), func(s circuit.State) circuit.State {
		return s.TakesForm(h.rules, form, until, h.now())
	})
	if err != nil {
		h.log.Warn("the signature form of a host could not be remembered", "host", host, "form", form, "error", err)
	}
}
