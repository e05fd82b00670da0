// Package healthcheck does the scheduled work, for which no queue message asks: it
// probes servers that are down, releases parked deliveries of servers that are back,
// and sends delayed activities when they are due.
//
// It runs every minute. The schedule delivers at least once, and a run may outlast
// its minute, so runs overlap. Therefore a run claims each step before it does
// anything: it saves the server's state with the time of the next step, by
// compare-and-swap on the state that it read. Of two runs only one succeeds. A run
// that dies has moved the step to a later time, not lost it.
package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
)

// Prober asks whether a host is there.
type Prober interface {
	// Probe makes one request to a host. An outcome for which HostFault holds, or that was
	// refused untried, fails the check; one of Retry that was untried has its cause here,
	// and the check is made again; any other answer passes.
	Probe(ctx context.Context, host string) outcome.Outcome
}

// Releaser sends delayed work that is due.
type Releaser interface {
	Release(ctx context.Context, now time.Time) (int, error)
}

// Finisher tells which activities are done, of those that are due for a look.
type Finisher interface {
	FinishDue(ctx context.Context, now time.Time) error
}

// Returner parks deliveries again that died because their server was down.
type Returner interface {
	// ParkAgain parks dead deliveries to a host again, which died at or after since: those
	// of a page of up to n, after a cursor, that are to be revived. They are either those
	// of ordered activities, or the others. It returns how many it has parked; next is
	// empty after the last page.
	ParkAgain(ctx context.Context, host string, ordered bool, since time.Time, cursor string, n int) (parked int, next string, err error)
}

// Meter counts for metrics.
type Meter interface {
	Counted(name string, n int)
	// Flush writes counts for statistics, at the end of a run, if there are any.
	Flush(ctx context.Context)
}

const (
	// DefaultProbes is the default of Config.Probes.
	DefaultProbes = 64
	// atOnce is how many steps other than probes are under way at once.
	atOnce = 8
	// reserve is kept back before the deadline of a run: no step begins in it.
	reserve = 10 * time.Second
)

// Config is what a Runner works with. Agenda may be nil.
type Config struct {
	Servers circuit.Store
	Lot     *parking.Lot
	Prober  Prober
	Agenda  Releaser
	// Limits, if not nil, tells when deliveries to hosts with a rate limit go.
	Limits ratelimit.Booker
	// Dead, if not nil, parks dead deliveries again of a server that is back.
	Dead Returner
	// Events, if not nil, tells which activities are done.
	Events Finisher
	// Forward, if not nil, passes new events on.
	Forward func(context.Context) error
	// Protocols have work of their own to be done every minute.
	Protocols protocol.Set

	Rules circuit.Rules
	Log   *slog.Logger
	Meter Meter
	Now   func() time.Time

	// Probes is how many probes are under way at once. Default 64.
	Probes int
	// ProbeTimeout of one probe. Default 8 s.
	ProbeTimeout time.Duration
	// Due is how many servers of a shard one run takes on. Default 1000.
	Due int
	// AtOnce is how many deliveries that will not be attempted are released at once:
	// overdue ones, and those of servers that are blocked or gone. Default 500.
	AtOnce int
}

// Runner makes the runs.
type Runner struct {
	Config

	mu     sync.Mutex
	latest time.Time // of the clock, as far as runs have seen
}

// New returns a runner.
func New(c Config) *Runner {
	c.Rules = c.Rules.Complete()
	c.Probes = cmp.Or(c.Probes, DefaultProbes)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 8*time.Second)
	c.Due = cmp.Or(c.Due, 1000)
	c.AtOnce = cmp.Or(c.AtOnce, 500)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Runner{Config: c}
}

type unmetered struct{}

func (unmetered) Counted(string, int)   {}
func (unmetered) Flush(context.Context) {}

// Run does all steps that are due. It begins none in the last ten seconds before the
// deadline of ctx; the next run goes on. A failure of one step does not keep others
// from being done. The error joins all failures.
func (r *Runner) Run(ctx context.Context) error {
	now := r.Now()
	var failed failures
	var wg sync.WaitGroup
	if r.Agenda != nil {
		wg.Go(func() {
			_, err := r.Agenda.Release(ctx, now)
			failed.add(err)
		})
	}
	if r.Events != nil {
		wg.Go(func() { failed.add(r.Events.FinishDue(ctx, now)) })
	}
	if r.Forward != nil {
		wg.Go(func() { failed.add(r.Forward(ctx)) })
	}
	for _, p := range r.Protocols {
		if p.Upkeep != nil {
			wg.Go(func() { failed.add(p.Upkeep.Check(ctx, now)) })
		}
	}
	wg.Go(func() {
		if back := r.setBack(now); back > 0 {
			failed.add(r.redate(ctx, now, back))
		}
		failed.add(r.heads(ctx, now))
		failed.add(r.servers(ctx, now))
	})
	wg.Wait()
	r.Meter.Flush(ctx)
	return errors.Join(failed.errs...)
}

// failures are those of steps that are taken side by side.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

// late reports whether nothing may be begun any more.
func (r *Runner) late(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && time.Until(end) < reserve)
}

// servers takes one step for each server that is due.
func (r *Runner) servers(ctx context.Context, now time.Time) error {
	probes, steps := make(chan struct{}, r.Probes), make(chan struct{}, atOnce)
	var failed failures
	var wg sync.WaitGroup
	for shard := range circuit.Shards {
		due, err := r.Servers.DueServers(ctx, shard, now, r.Due)
		if err != nil {
			failed.add(fmt.Errorf("find due servers of shard %d: %w", shard, err))
			continue
		}
		for _, s := range due {
			slots := steps
			if down(s) {
				// A probe of a host that hangs takes long. Other steps have slots of
				// their own, so they do not wait behind such probes.
				slots = probes
			}
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if r.late(ctx) {
					return
				}
				// What a step that ran late has left is found by the next run.
				if err := r.step(ctx, s, now); err != nil && !errors.Is(err, errLate) {
					failed.add(fmt.Errorf("server %s: %w", s.Key, err))
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(failed.errs...)
}

func down(s circuit.State) bool { return s.Phase == circuit.Unhealthy || s.Phase == circuit.Exhausted }

// step does what is due for one server.
func (r *Runner) step(ctx context.Context, s circuit.State, now time.Time) error {
	if !s.Parked {
		// An earlier run saw the lot empty, and may have died before its second look.
		var err error
		if s, err = r.secondLook(ctx, s); err != nil || s.CheckAt.After(now) {
			return err
		}
		if p := s.Settled(now).Phase; !s.Parked && (p == circuit.Paused || p == circuit.Blocked) {
			_, err := r.change(ctx, s, func(s circuit.State) circuit.State { return s.Emptied(r.Rules, now) })
			return err
		}
	}
	refused, err := r.refusedAbove(ctx, s)
	switch {
	case err != nil:
		return err
	case refused && s.Parked:
		return r.empty(ctx, s)
	case refused:
		_, err := r.change(ctx, s, func(s circuit.State) circuit.State {
			if s.Parked {
				return s
			}
			return s.Idle(r.Rules, now)
		})
		return err
	}
	phase := s.Settled(now).Phase
	if s.Doubt || phase == circuit.Gone && !s.Parked {
		return r.look(ctx, s)
	}
	switch phase {
	case circuit.Unhealthy, circuit.Exhausted:
		return r.check(ctx, s)
	case circuit.HalfOpen:
		return r.trial(ctx, s)
	case circuit.Gone, circuit.Blocked:
		return r.empty(ctx, s)
	case circuit.Paused:
		return r.wait(ctx, s)
	}
	return r.release(ctx, s)
}

// lease is how long a check is in the hands of the run that began it.
func (r *Runner) lease() time.Duration { return r.ProbeTimeout + time.Minute }

// leaseOf is the lease of a check of s. No probe is made for an inbox, so its check is over
// at once. A worker that finds the check under way takes the end of the lease for the time
// of the next check, and has ordered deliveries wait until then.
func (r *Runner) leaseOf(s circuit.State) time.Duration {
	if _, whole := circuit.HostOf(s.Key); !whole {
		return min(r.lease(), r.Rules.RampEvery)
	}
	return r.lease()
}
