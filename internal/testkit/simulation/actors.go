package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"fedpost/internal/app/local"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/faults"
)

// worker receives from a queue and works, batch by batch, as one invocation of
// the deliver function after another does.
func (p *process) worker(n queue.Name, number int) {
	name := fmt.Sprintf("%s/%s%d", p.spec.Name, n, number)
	pause, m := time.Second, p.mapping(n, 0)
	for !p.dead.Load() && !p.over.Load() {
		if _, err := m.PollOnce(as(context.Background(), name)); err != nil && !p.dead.Load() && !p.over.Load() {
			p.wait(name, pause)
			pause = min(2*pause, 10*time.Second)
			continue
		}
		pause = time.Second
	}
}

// mapping connects the process to a queue, with up to messages messages under way.
func (p *process) mapping(n queue.Name, messages int) local.Mapping {
	return local.Mapping{
		Queue: settled{p.ports.Queue(n), p}, Name: n, BatchSize: topology.Of(n).BatchSize, Messages: messages,
		Timeout: topology.Deliver.Timeout, Handler: p.handle, Log: slog.New(slog.DiscardHandler),
	}
}

// schedule runs the scheduled function in each minute in which it finds anything, and every few
// hours in any case. If work stays due although a run did not fail, runs become rarer, up to
// hourly, until more becomes due, which saves the simulation time. After a failed run the next comes
// in a minute, as in production: otherwise stories with failing calls would wait for hours.
func (p *process) schedule() {
	last, idle := time.Now(), 0
	var before time.Time // what was due first before the last run
	for !p.dead.Load() && !p.over.Load() {
		began, pause := last, time.Minute<<min(idle, 6)
		p.hold(&held{Call: faults.Call{Target: "schedule", Op: "run"}, actor: p.spec.Name, proc: p, when: func() time.Time {
			if !before.Equal(p.engine.NextDue()) {
				pause = time.Minute // a worker has done since what the run had begun
			}
			return p.nextRun(began, pause)
		}})
		if p.dead.Load() || p.over.Load() {
			return
		}
		last = time.Now()
		if due := p.engine.NextDue(); !before.Equal(due) {
			before, idle = due, 0
		}
		run := func() error {
			ctx, cancel := context.WithTimeout(as(context.Background(), p.spec.Name+"/schedule"), topology.HealthCheck.Timeout)
			defer cancel()
			defer p.begins(runs, 1)()
			return p.check(ctx)
		}
		if p.scenario.Overlap {
			p.goes(func() { _ = run() }) // failures are logged, and repaired by the next run, in a minute
			continue
		}
		idle++
		if err := run(); err != nil || !before.Equal(p.engine.NextDue()) || before.After(p.now()) {
			idle = 0 // it failed, or what it found is done, or was not due yet
		}
	}
}

// nextRun is when the schedule runs after a run that began at a time: when anything is due, but for
// what was due by then, not before a pause.
func (p *process) nextRun(began time.Time, pause time.Duration) time.Time {
	at := p.runFor(p.engine.NextDue(), began, pause)
	if pause > time.Minute {
		if more := p.runFor(p.engine.DueAfter(began.Add(p.skew)), began, time.Minute); more.Before(at) {
			return more
		}
	}
	return at
}

// runFor is when the schedule runs for what is due at a time of the process's clock.
func (p *process) runFor(due, began time.Time, pause time.Duration) time.Time {
	at := began.Add(6 * time.Hour)
	if !due.IsZero() && due.Add(-p.skew).Before(at) {
		at = due.Add(-p.skew)
	}
	at = at.Add(time.Minute - 1).Truncate(time.Minute)
	if next := began.Truncate(time.Minute).Add(pause); at.Before(next) {
		return next
	}
	return at
}

// wait lets time pass for whoever calls it.
func (s *sim) wait(actor string, d time.Duration) {
	s.hold(&held{Call: faults.Call{Target: "time", Op: "wait"}, actor: actor, at: time.Now().Add(d)})
}
