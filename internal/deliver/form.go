package deliver

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
func (e *Engine) Form(host string) string {
	return e.hosts.state(circuit.HostKey(host)).FormAt(e.Now())
}

// RememberForm shares which form a host takes, until a time. That it could not
// costs one more request next time, so it is logged and no error.
func (e *Engine) RememberForm(host, form string, until time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), formTimeout)
	defer cancel()
	err := e.hosts.change(ctx, circuit.HostKey(host), func(s circuit.State) circuit.State {
		return s.TakesForm(e.Rules, form, until, e.Now())
	})
	if err != nil {
		e.Log.Warn("the signature form of a host could not be remembered", "host", host, "form", form, "error", err)
	}
}
