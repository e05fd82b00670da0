package cache

import (
	"time"

	"fedpost/internal/servers/circuit"
)

// Form returns the signature form that a host takes, or "", and whether an attempt is only one
// request. All processes share both.
func (h *Hosts) Form(host string) (form string, once bool) {
	s, now := h.State(circuit.HostKey(host)), h.now()
	return s.FormAt(now), s.OneRequest(h.rules, now)
}

// RememberForm records that a host refused the expected form and accepted another. After the
// second such delivery that form is used, until the given time.
func (h *Hosts) RememberForm(host, form string, until time.Time) {
	now, key, kind := h.now(), circuit.HostKey(host), "form"
	if h.State(key).MaybeForm != form {
		kind = "maybe form" // the second delivery must not replace the first
	}
	h.Learn(key, Lesson{Kind: kind, Apply: func(s circuit.State) circuit.State {
		return s.TookForm(h.rules, form, until, now)
	}})
}
