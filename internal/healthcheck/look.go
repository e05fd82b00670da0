package healthcheck

import (
	"context"
	"net/http"

	"fedpost/internal/servers/circuit"
)

// look asks a server of which an inbox has answered 410 whether all of it is gone,
// and one that is gone whether it still is. No answer tells nothing.
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
	r.Log.Info("looked whether a server is gone", "server", s.Key, "status", o.Status, "phase", after.Phase, "until", after.Until)
	return nil
}
