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

// RememberForm notes that a host has accepted a form after it had refused the
// expected one. After the second such delivery the form is kept until a time.
func (h *Hosts) RememberForm(host, form string, until time.Time) {
	now, key, kind := h.now(), circuit.HostKey(host), "form"
	if h.State(key).MaybeForm != form {
		kind = "maybe form" // the second delivery must not replace the first
	}
	h.Learn(key, Lesson{Kind: kind, Apply: func(s circuit.State) circuit.State {
		return s.TookForm(h.rules, form, until, now)
	}})
}
