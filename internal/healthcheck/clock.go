package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/servers/circuit"
)

// skew is how far the clock may go back between two runs without effect: runs overlap, and clocks
// are adjusted.
const skew = time.Minute

// setBack returns by how much the clock was set back since the last run, or 0.
func (r *Runner) setBack(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	back := r.latest.Sub(now)
	if back > skew {
		r.latest = now
		return back
	}
	if now.After(r.latest) {
		r.latest = now
	}
	return 0
}

// redate makes the steps of all servers due earlier by as much as the clock was set back: otherwise
// they would be late by that.
func (r *Runner) redate(ctx context.Context, now time.Time, back time.Duration) error {
	r.Log.WarnContext(ctx, "the clock was set back; the steps of servers are set back with it", "by", back)
	var errs []error
	for shard := range circuit.Shards {
		planned, err := r.Servers.DueServers(ctx, shard, now.Add(back+r.Rules.CheckSlow), 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("find the servers of shard %d: %w", shard, err))
		}
		for _, s := range planned {
			at := s.CheckAt.Add(-back)
			_, err := r.change(ctx, s, func(s circuit.State) circuit.State { return s.Sooner(r.Rules, at, now) })
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
