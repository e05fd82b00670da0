// Package healthcheck does the scheduled work: it probes servers that are down, releases parked
// deliveries of servers that are back, and sends delayed activities.
//
// It runs every minute, and runs overlap. So a run claims each step first: it saves the
// server's state with the time of the next step, by compare-and-swap. A run that dies has moved
// the step to a later time, not lost it.
package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
)

// Prober probes hosts.
type Prober interface {
	// Probe makes one request to a host. An outcome for which HostFault holds, or that was
	// refused untried, fails the check. An untried Retry is a fault of ours, and the check is
	// repeated. Any other outcome passes.
	Probe(ctx context.Context, host string) outcome.Outcome
}

// Releaser sends delayed work that is due.
type Releaser interface {
	Release(ctx context.Context, now time.Time) (int, error)
}

// Finisher writes events of activities that are done, among those due for a check.
type Finisher interface {
	FinishDue(ctx context.Context, now time.Time) error
}

// Returner revives deliveries that died because their server was down.
type Returner interface {
	// ParkAgain parks dead deliveries to a host again: those of a page of up to n, after a
	// cursor, that died at or after since. They are ordered ones, or the others. It returns how
	// many it has parked; next is empty after the last page.
	ParkAgain(ctx context.Context, host string, ordered bool, since time.Time, cursor string, n int) (parked int, next string, err error)
}

// Meter counts for metrics.
type Meter interface {
	Counted(name string, n int)
	// Flush writes counts at the end of a run.
	Flush(ctx context.Context)
}

const (
	// DefaultProbes is the default of Config.Probes.
	DefaultProbes = 64
	// atOnce is how many steps other than probes are under way at once.
	atOnce = 8
	// perPage is how many heads of ordered groups, or servers of a list, are read at once.
	perPage = 1000
	// headsTime is how much of a run heads of ordered groups may take, before the steps of servers.
	headsTime = 30 * time.Second
	// reserve is kept back before the deadline of a run: no step begins in it.
	reserve = 10 * time.Second
)

// Config configures a Runner. Agenda, Limits, Dead, Events and Forward may be nil.
type Config struct {
	Servers circuit.Store
	Lot     *parking.Lot
	Prober  Prober
	Agenda  Releaser
	// Limits books slots of hosts with a rate limit.
	Limits ratelimit.Booker
	// Dead revives dead deliveries.
	Dead Returner
	// Events finds activities that are done.
	Events Finisher
	// Forward passes new events on.
	Forward func(context.Context) error
	// Protocols may have work of their own every minute.
	Protocols protocol.Set

	Rules circuit.Rules
	Log   *slog.Logger
	Meter Meter
	Now   func() time.Time

	// Probes is how many probes are under way at once. Default 64.
	Probes int
	// ProbeTimeout of one probe. Default 8 s.
	ProbeTimeout time.Duration
	// Due bounds the servers of a shard in one run, and so its memory. Default 2000.
	Due int
	// AtOnce is how many deliveries that will not be attempted are released at once: overdue
	// ones, and those of servers that are blocked or gone. Default 500.
	AtOnce int
}

// Runner makes the runs.
type Runner struct {
	Config

	mu     sync.Mutex
	latest time.Time // the latest time that a run has seen
}

// New returns a runner.
func New(c Config) *Runner {
	c.Rules = c.Rules.Complete()
	c.Probes = cmp.Or(c.Probes, DefaultProbes)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 8*time.Second)
	c.Due = cmp.Or(c.Due, 2000)
	c.AtOnce = cmp.Or(c.AtOnce, 500)
	return &Runner{Config: c}
}

// Run does all steps that are due. It begins none in the last ten seconds before the deadline
// of ctx. A failure of one step does not prevent others; the error joins all failures.
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
		some, cancel := context.WithTimeout(ctx, headsTime)
		failed.add(r.heads(some, now))
		cancel()
		failed.add(r.servers(ctx, now))
	})
	wg.Wait()
	r.Meter.Flush(ctx)
	return errors.Join(failed.errs...)
}

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

func (r *Runner) late(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && time.Until(end) < reserve)
}

func (r *Runner) servers(ctx context.Context, now time.Time) error {
	var failed failures
	var all, probed, others []circuit.State
	for shard := range circuit.Shards {
		due, err := r.Servers.DueServers(ctx, shard, now, r.Due)
		if err != nil {
			failed.add(fmt.Errorf("find due servers of shard %d: %w", shard, err))
		}
		all = append(all, due...)
	}
	for _, s := range inTurn(all) {
		if s.Probed() {
			// A probe of a host that hangs takes long, and other steps must not wait for it.
			probed = append(probed, s)
		} else {
			others = append(others, s)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.steps(ctx, probed, r.Probes, now, &failed) })
	r.steps(ctx, others, atOnce, now, &failed)
	wg.Wait()
	return errors.Join(failed.errs...)
}

// inTurn sorts servers, as a run may have no time for all. None starves if the earliest come first.
// The first of each site comes before the second of any, so that one owner's hosts and inboxes,
// however many there are, hold up none of others.
func inTurn(due []circuit.State) []circuit.State {
	slices.SortFunc(due, func(a, b circuit.State) int { return a.CheckAt.Compare(b.CheckAt) })
	before, turns := map[string]int{}, make(map[string]int, len(due))
	for _, s := range due {
		host, _ := circuit.HostOf(s.Key)
		site := activity.SiteOf(host)
		turns[s.Key] = before[site]
		before[site]++
	}
	slices.SortStableFunc(due, func(a, b circuit.State) int { return cmp.Compare(turns[a.Key], turns[b.Key]) })
	return due
}

// steps takes the next step of each server, most of them at once. The next run goes on with what a
// late one has left.
func (r *Runner) steps(ctx context.Context, due []circuit.State, most int, now time.Time, failed *failures) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, most)
	for _, s := range due {
		if slots <- struct{}{}; r.late(ctx) {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := r.step(ctx, s, now); err != nil && !errors.Is(err, errLate) {
				failed.add(fmt.Errorf("server %s: %w", s.Key, err))
			}
		})
	}
	wg.Wait()
}

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

// lease is how long a run has claimed a check.
func (r *Runner) lease() time.Duration { return r.ProbeTimeout + time.Minute }

// leaseOf is the lease of a check of s. For an inbox no probe is made, so its check is over at
// once, and workers take the end of the lease for the next check.
func (r *Runner) leaseOf(s circuit.State) time.Duration {
	if _, whole := circuit.HostOf(s.Key); !whole {
		return min(r.lease(), r.Rules.RampEvery)
	}
	return r.lease()
}
