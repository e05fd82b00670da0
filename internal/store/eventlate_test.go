package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/store"
	"fedpost/internal/testkit/memory"
)

// late is a table that loses answers of writes, some of which act seconds later.
type late struct {
	table.Table
	mu   sync.Mutex
	draw *rand.Rand
	open sync.WaitGroup
}

var errLate = errors.New("the answer was lost")

func (l *late) write(do func() error) error {
	time.Sleep(time.Millisecond) // virtual
	l.mu.Lock()
	n, wait := l.draw.IntN(10), time.Duration(l.draw.IntN(3000))*time.Millisecond
	l.mu.Unlock()
	switch {
	case n < 5:
		return do()
	case n < 6:
		return errLate
	case n < 7:
		_ = do() // its caller does not learn what came of it
		return errLate
	}
	l.open.Go(func() {
		time.Sleep(wait) // virtual
		_ = do()         // as above
	})
	return errLate
}

func (l *late) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return l.write(func() error { return l.Table.Put(context.WithoutCancel(ctx), it, cond) })
}

func (l *late) Transact(ctx context.Context, ops []table.Op) error {
	return l.write(func() error { return l.Table.Transact(context.WithoutCancel(ctx), ops) })
}

// TestEventsAreWrittenOnceThoughWritesActLate: four processes, whose clocks differ, write the same
// ends, begin the logs anew, and start again without what they knew. Some ends are older than what
// a writer knows of a log: it must read the log again. A reader misses none.
func TestEventsAreWrittenOnceThoughWritesActLate(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { writesActLate(t, seed) })
		})
	}
}

func writesActLate(t *testing.T, seed uint64) {
	base := memory.New(time.Now, nil).Table()
	shared := &late{Table: base, draw: rand.New(rand.NewPCG(seed, 7))}
	const rounds, processes = 15, 4
	var mu sync.Mutex
	var known []events.End
	done := make(chan struct{})
	var all sync.WaitGroup
	for p := range processes {
		draw := rand.New(rand.NewPCG(seed, uint64(p)))
		clock := func() time.Time { return time.Now().Add(time.Duration(p-1) * 2 * time.Second) }
		st := store.New(shared, clock)
		all.Go(func() {
			for r := range rounds {
				id := activity.DerivedID(clock(), fmt.Sprint(p, " ", r))
				end, _ := events.EndOf(id, events.About{}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, State: activity.Dead, UpdatedAt: clock()})
				mu.Lock()
				known = append(known, end)
				ends := []events.End{end, known[draw.IntN(len(known))], known[draw.IntN(len(known))]}
				mu.Unlock()
				for st.AppendEnds(t.Context(), ends) != nil {
					time.Sleep(time.Duration(draw.IntN(1000)) * time.Millisecond) // virtual
				}
				switch draw.IntN(8) {
				case 0:
					st = store.New(shared, clock)
				case 1:
					_ = st.BeginEventsAnew(t.Context()) // some logs may have begun anew
				}
				time.Sleep(time.Duration(draw.IntN(2000)) * time.Millisecond) // virtual
			}
		})
	}
	var reader sync.WaitGroup
	seen := map[string]int{}
	reader.Go(func() {
		st := store.New(base, time.Now)
		for cursor, ended := "", false; ; {
			p, err := st.Events(t.Context(), cursor, 3)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range p.Events {
				seen[e.ID]++
			}
			if cursor = p.Next; p.More {
				continue
			}
			if ended {
				return
			}
			select {
			case <-done:
				ended = true
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	all.Wait()
	shared.open.Wait()
	close(done)
	reader.Wait()
	for _, e := range known {
		if n := seen[e.ID]; n != 1 {
			t.Errorf("a reader saw an event %d times, want once", n)
		}
	}
}
