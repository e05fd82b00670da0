package postgres

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// dutyTime is how long a process has a duty after it last said so. When it dies, another
	// process has the duty at most dutyTime and dutyEvery later.
	dutyTime = 15 * time.Second
	// dutyEvery is how often a process says that it has a duty, or asks for it.
	dutyEvery = 5 * time.Second
)

// Duty is work that one process of a database does at a time. It moves to another process
// when that one ends or dies.
type Duty struct {
	e      *Engine
	name   string
	holder string // this process

	mu     sync.Mutex
	ctx    context.Context // while this process has the duty; nil if it has not
	cancel context.CancelFunc
	lapse  *time.Timer

	stop context.CancelFunc
	done sync.WaitGroup
}

// Duty begins to ask for a duty. Call Resign before Close.
func (e *Engine) Duty(ctx context.Context, name string) *Duty {
	asking, stop := context.WithCancel(context.Background())
	d := &Duty{e: e, name: name, holder: rand.Text(), stop: stop}
	d.ask(ctx)
	d.done.Go(func() {
		tick := time.NewTicker(dutyEvery)
		defer tick.Stop()
		for {
			select {
			case <-asking.Done():
				return
			case <-tick.C:
				d.ask(asking)
			}
		}
	})
	return d
}

const (
	askForDuty = withNow + `INSERT INTO fedpost.duty AS d (name, holder, until) SELECT $2, $3, now + $4::bigint FROM t
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE d.holder = excluded.holder OR d.until <= (SELECT now FROM t)`
	resignFromDuty = `DELETE FROM fedpost.duty WHERE name = $1 AND holder = $2`
)

// ask asks for the duty, or says that this process still has it. If the server does not
// answer, the duty lapses in time.
func (d *Duty) ask(ctx context.Context) {
	began := time.Now()
	var n int64
	err := d.e.writes.submit(ctx, "duty "+d.name, func(b *pgx.Batch) {
		b.Queue(d.e.sql(askForDuty), d.e.clock.arguments(), d.name, d.holder, dutyTime.Milliseconds()).Exec(affected(&n))
	})
	if err != nil {
		d.e.log.WarnContext(ctx, "cannot take or keep the work that only one process does at a time", "name", d.name, "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n == 0 {
		d.lose()
		return
	}
	if d.ctx == nil {
		d.ctx, d.cancel = context.WithCancel(context.Background())
	} else {
		d.lapse.Stop()
	}
	ctx = d.ctx
	d.lapse = time.AfterFunc(dutyTime-time.Since(began), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ctx == ctx {
			d.lose()
		}
	})
}

func (d *Duty) lose() {
	if d.ctx != nil {
		d.lapse.Stop()
		d.cancel()
		d.ctx = nil
	}
}

// Do runs work if this process has the duty. The context of the work ends when the process
// loses the duty.
func (d *Duty) Do(ctx context.Context, work func(context.Context) error) error {
	d.mu.Lock()
	held := d.ctx
	d.mu.Unlock()
	if held == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(held, cancel)()
	return work(ctx)
}

// Resign gives the duty up, so that the next process that asks for the duty gets it.
func (d *Duty) Resign(ctx context.Context) error {
	d.stop()
	d.done.Wait()
	d.mu.Lock()
	d.lose()
	d.mu.Unlock()
	return d.e.writes.submit(ctx, "duty "+d.name, func(b *pgx.Batch) { b.Queue(d.e.sql(resignFromDuty), d.name, d.holder) })
}
