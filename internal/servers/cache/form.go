package cache

import (
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

type inboxForm struct{ inbox, form string }

// Form returns the signature form that the inbox of t takes, or "", and whether an attempt is only
// one request. All processes share both.
func (h *Hosts) Form(t activity.Target) (form string, once bool) {
	s, now := h.State(circuit.HostKey(t.Host())), h.now()
	return s.FormOf(t.Inbox, now), s.OneRequest(h.rules, now)
}

// TookForm records that an inbox accepted a form, after it refused another one, or none (""). After
// the second such refusal form is used, until the given time. What inboxes accepted without a refusal
// is not shared, because that would be a write for each: a process believes what it has seen itself.
func (h *Hosts) TookForm(t activity.Target, refused, form string, until time.Time) {
	now, key := h.now(), circuit.HostKey(t.Host())
	h.mu.Lock()
	k := h.entry(key, now)
	if refused == "" {
		k.asExpected = inboxForm{t.Inbox, form}
		h.mu.Unlock()
		return
	}
	before, accepted := h.view(key, now), k.asExpected == inboxForm{t.Inbox, refused}
	others := !accepted && k.asExpected.form == refused
	h.mu.Unlock()
	taken := circuit.FormTaken{Inbox: t.Inbox, Refused: refused, Form: form, Shared: t.Shared && !others, AcceptedRefused: accepted, Until: until}
	learn := func(s circuit.State) circuit.State { return s.TookForm(h.rules, taken, now) }
	kind := "form of " + t.Inbox
	if learn(before).FormOf(t.Inbox, now) == before.FormOf(t.Inbox, now) {
		kind = "maybe " + kind // the second delivery must not replace the first
	}
	h.Learn(key, Lesson{Kind: kind, Apply: learn})
}
