package cache

import (
	"time"

	"fedpost/internal/servers/circuit"
)

// Form returns the signature form that a host is known to take, or "". The form is a part
// of the host's shared state, so that not every process has to be refused once to learn
// it.
func (h *Hosts) Form(host string) string {
	return h.State(circuit.HostKey(host)).FormAt(h.now())
}

// RememberForm notes that a host has refused the expected form and then accepted another.
// After the second such delivery the host is sent that other form, until the given time.
func (h *Hosts) RememberForm(host, form string, until time.Time) {
	now, key, kind := h.now(), circuit.HostKey(host), "form"
	if h.State(key).MaybeForm != form {
		kind = "maybe form" // the second delivery must not replace the first
	}
	h.Learn(key, Lesson{Kind: kind, Apply: func(s circuit.State) circuit.State {
		return s.TookForm(h.rules, form, until, now)
	}})
}
