package healthcheck

import (
	"context"
	"net/http"

	"fedpost/internal/servers/circuit"
)

// look probes a server in doubt: one with an inbox that has answered 410, or one that is
// gone. If the server answers the probe with 410, it is gone. No answer changes nothing.
func (r *Runner) look(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.lease(), r.Now()) })
	if !mine {
		return err
	}
	host, _ := circuit.HostOf(s.Key)
	o := r.probe(ctx, host)
	gone := o.Status == http.StatusGone || s.Phase == circuit.Gone && o.Status == 0
	after, err := r.change(ctx, s, func(s circuit.State) circuit.State {
		if gone {
			return s.ConfirmedGone(r.Rules, s.Why, r.Now())
		}
		return s.NotGone(r.Rules, r.Now())
	})
	if err != nil {
		return err
	}
	r.Log.InfoContext(ctx, "looked whether a server is gone", "server", s.Key, "status", o.Status, "phase", after.Phase, "until", after.Until)
	return nil
}
