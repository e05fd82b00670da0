package storetest

import (
	"errors"
	"fmt"
	"sync"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var races = group{"races", []testCase{
	{"OneOf64WorkersGetsAChunk", func(b *bed) {
		w := b.work(3)
		w.contend(func(int) message.Unit { return w.chunk() })
	}},
	{"OneOf64WorkersGetsAPosition", func(b *bed) {
		w := b.work(3)
		w.contend(func(int) message.Unit { return w.one(1, 0) })
	}},
	{"OneOf64WorkersTakesOverALapsedClaim", func(b *bed) {
		for _, unit := range units {
			w := b.work(3)
			slow := w.claim(unit(w), "slow")
			b.advance(lease)
			w.contend(func(int) message.Unit { return unit(w) })
			err := b.Record(b.ctx, &slow, []ledger.Recipient{w.outcomeOf(1, activity.Delivered, 1)}, true)
			if !errors.Is(err, ledger.ErrClaimed) {
				b.t.Errorf("Record by the slow worker: %v", err)
			}
		}
	}},
	{"AChunkAndItsPositionAreNeverBothAtOneTarget", func(b *bed) {
		for range 20 {
			w := b.work(2)
			units := []message.Unit{w.chunk(), w.one(1, 0), w.one(1, 0), w.chunk()}
			at := make([]bool, len(units)) // whether this worker may attempt position 1
			errs := make([]error, len(units))
			var wg sync.WaitGroup
			for i, u := range units {
				wg.Go(func() {
					var c ledger.Claim
					c, errs[i] = w.try(b.ctx, u, fmt.Sprint("worker ", i))
					if errs[i] != nil {
						return
					}
					_, taken := c.Known.Recipients[1]
					at[i] = u.Position == 1 || !taken
				})
			}
			wg.Wait()
			n := 0
			for i, err := range errs {
				if err != nil && !errors.Is(err, ledger.ErrClaimed) {
					b.t.Fatal(err)
				}
				if at[i] {
					n++
				}
			}
			if n > 1 {
				b.t.Fatalf("%d workers are at one target: %v", n, at)
			}
		}
	}},
	{"OutcomesOfPositionsDoNotDisturbEachOther", func(b *bed) {
		const n = 16
		w := b.work(n)
		var wg sync.WaitGroup
		errs := make([]error, n)
		for p := range n {
			wg.Go(func() {
				c, err := w.try(b.ctx, w.one(p, 1), fmt.Sprint("worker ", p))
				if err == nil {
					err = b.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(p, activity.Delivered, 1)}, true)
				}
				errs[p] = err
			})
		}
		wg.Wait()
		b.must(errors.Join(errs...))
		if rs := w.inspect(w.chunk()).Recipients; len(rs) != n {
			b.t.Errorf("recorded: %v", sorted(rs))
		}
	}},
}}

// contend has 64 workers claim units at once: one succeeds.
func (w *work) contend(unit func(i int) message.Unit) {
	w.t.Helper()
	const workers = 64
	errs := make([]error, workers)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range workers {
		wg.Go(func() {
			u := unit(i)
			k, err := w.Inspect(w.ctx, u)
			<-start
			if err == nil {
				_, err = w.Claim(w.ctx, u, k, fmt.Sprint("worker ", i), w.in(lease))
			}
			errs[i] = err
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ledger.ErrClaimed):
			w.t.Error(err)
		}
	}
	if won != 1 {
		w.t.Errorf("%d workers have the claim", won)
	}
}
