package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/faults"
)

// process is a process that runs fedpost: all of it, as `up` does, or one function, as Lambda does.
// When it dies, its memory is lost, its calls reach nobody any more, and another replaces it.
type process struct {
	*sim
	spec Process
	life int
	dead atomic.Bool
	// ctx ends with the process.
	ctx   context.Context
	end   context.CancelFunc
	skew  time.Duration
	ports app.Ports
	api   http.Handler
	work  local.Handler
	check func(context.Context) error
	// troubled is until when a call went wrong or took long.
	troubled time.Time
	load     load
	keeps    keeps
}

// plainSealer seals nothing: what is simulated is not cryptography.
type plainSealer struct{}

func (plainSealer) Seal(_ context.Context, _ string, b []byte) ([]byte, error) {
	return append([]byte(nil), b...), nil
}

func (plainSealer) Open(_ context.Context, _ string, b []byte) ([]byte, error) {
	return append([]byte(nil), b...), nil
}

// start starts a process.
func (s *sim) start(spec Process, life int) *process {
	p := &process{sim: s, spec: spec, life: life, skew: spec.Skew - s.back}
	p.ctx, p.end = context.WithCancel(context.Background())
	queues := map[queue.Name]queue.Queue{}
	for _, n := range queue.Names {
		if queues[n] = faults.Queue(p, string(n), counted{s.engine.Queue(n), s.book, n}); spec.Older {
			queues[n] = olderQueue{queues[n]}
		}
	}
	var mu sync.Mutex
	draws := 0
	p.ports = app.Ports{
		Table: faults.Table(p, "table", billed{s.engine.Table(), s.book}), Queue: func(n queue.Name) queue.Queue { return queues[n] },
		Sealer: plainSealer{}, Transport: network{p}, PerQueue: spec.Places, Log: slog.New(slog.DiscardHandler), Now: p.now,
		Random: func() float64 {
			mu.Lock()
			defer mu.Unlock()
			draws++
			return share(s.draw("jitter", p.name(), fmt.Sprint(draws)))
		},
	}
	if spec.Older {
		p.ports.Table = older{p.ports.Table}
	}
	if spec.Whole {
		p.ports.Alone = fmt.Sprintf("%s.%d.", spec.Name, life)
		if life > 0 {
			s.engine.Recall()
		}
	}
	p.assemble(s.settings)
	return p
}

// assemble puts fedpost together as its programs do.
func (p *process) assemble(c config.Local) {
	handler, err := app.API(c.Enqueue(), config.Access{}, p.ports)
	p.must(err)
	worker, err := app.Deliver(c.Deliver(), p.ports)
	p.must(err)
	checks, err := app.HealthCheck(c.HealthCheck(), p.ports)
	p.must(err)
	p.api, p.check = handler, checks.Run
	p.work = worker.Handle
	p.keeps = keepsOf(worker, handler, checks)
}

func (p *process) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("put %s together: %v", p.name(), err))
	}
}

func (p *process) name() string { return fmt.Sprintf("%s.%d", p.spec.Name, p.life) }

// now is the process's clock.
func (p *process) now() time.Time { return time.Now().Add(p.skew) }

// run starts the process's own work.
func (p *process) run() {
	for _, n := range topology.Sources {
		if p.spec.Places > 0 {
			p.goes(func() { p.mapping(n, 4*p.spec.Places).Run(as(p.ctx, fmt.Sprintf("%s/%s", p.spec.Name, n))) })
			continue
		}
		for i := range p.spec.Workers {
			p.goes(func() { p.worker(n, i) })
		}
	}
	if p.spec.Schedule {
		p.goes(p.schedule)
	}
}

// die ends the process, half of the time by a power cut if it has the engine for itself. Another
// starts after a while.
func (p *process) die(why string) {
	if p.dead.Load() {
		return
	}
	p.dead.Store(true)
	p.end()
	if p.spec.Whole && p.draw("power cut", p.name())%2 == 0 {
		p.engine.CutPower()
		why += ", power cut"
	}
	p.story.print("%s dies (%s)", p.name(), why)
	p.book.died(p)
	p.goes(func() {
		p.wait(p.name()+" starts again", time.Duration(1+p.draw("rebirth", p.name())%90)*time.Second)
		if p.over.Load() {
			return
		}
		spec := p.spec
		spec.Older = false
		next := p.start(spec, p.life+1)
		p.processes[p.spec.Name] = next
		next.run()
	})
}

type actorKey struct{}

// as returns a context that names the actor of its calls.
func as(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

func actorOf(ctx context.Context) string {
	a, _ := ctx.Value(actorKey{}).(string)
	return a
}

// Intercept implements faults.Interceptor: it holds a call until the scheduler chooses it, and
// makes it fail if that is drawn.
func (p *process) Intercept(ctx context.Context, c faults.Call, act func(faults.Fault) error) error {
	if p.over.Load() && c.About == "H# WRITABLE" {
		return nil // else who keeps outcomes until the table can be written never gives up
	}
	if p.dead.Load() || p.over.Load() {
		return faults.ErrDead
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h := &held{Call: c, ctx: ctx, actor: actorOf(ctx), proc: p, at: time.Now()}
	if h.actor == "" {
		defer p.begins(saves, 1)()
	}
	if c.Op == "Receive" {
		// A receive waits for something to receive, as a long poll does.
		h.when = func() time.Time { return p.engine.Receivable(queue.Name(c.Target)) }
	}
	p.hold(h)
	if p.dead.Load() || p.over.Load() {
		return faults.ErrDead
	}
	late := p.fate(h)
	p.book.troubled(p, late)
	if late.before > 0 {
		p.again(h, late.before)
	}
	if err := ctx.Err(); err != nil || p.dead.Load() || p.over.Load() {
		return errorOr(err, faults.ErrDead)
	}
	p.story.call(p, h, late)
	died, err := late.fault.Run(c, act)
	p.book.called(p, c)
	if died {
		p.die(fmt.Sprintf("%s %s.%s", late.fault.Kind, c.Target, c.Op))
		return err
	}
	if late.after > 0 {
		p.again(h, late.after)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the answer of %s.%s came too late: %w", faults.ErrInjected, c.Target, c.Op, ctx.Err())
		}
	}
	if p.dead.Load() || p.over.Load() {
		return faults.ErrDead
	}
	return err
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// again holds a call for a time that it takes.
func (p *process) again(h *held, d time.Duration) {
	p.hold(&held{Call: faults.Call{Target: h.Target, Op: h.Op + "…"}, ctx: h.ctx, actor: h.actor, proc: p, at: time.Now().Add(d)})
}

// fate is how a call goes, as drawn.
type fate struct {
	fault         faults.Fault
	before, after time.Duration
}

func (p *process) fate(h *held) fate {
	var f fate
	l := p.scenario.Latency
	if l.Typical > 0 && h.Op != "Receive" {
		f.before = time.Duration(share(p.draw("latency", h.name)) * 2 * float64(l.Typical))
	}
	if forced, ok := p.scenario.Faults.At[h.name]; ok {
		return forced.apply(f)
	}
	if p.scenario.Faults.At != nil {
		return f
	}
	if t, ok := p.scenario.Faults.drawn(p, h); ok {
		p.story.fault(h.name, t)
		return t.apply(f)
	}
	return f
}
