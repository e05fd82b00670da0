package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// TestALogThatHasExpiredGoesOnAboveItsCursors: DynamoDB drops expired items in no order, so the
// last that is left need not be the newest.
func TestALogThatHasExpiredGoesOnAboveItsCursors(t *testing.T) {
	for _, left := range []int{0, 1, 5} { // items that the table has not dropped yet
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
			e := memory.New(func() time.Time { return now }, nil)
			st := store.New(e.Table(), func() time.Time { return now })
			id, err := activity.NewID(now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			tell := func(st *store.Store) {
				end, _ := events.EndOf(id, events.About{}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, Position: n, State: activity.Dead, UpdatedAt: now})
				n++
				if err := st.AppendEnds(t.Context(), []events.End{end}); err != nil {
					t.Fatal(err)
				}
			}
			for range 5 {
				tell(st)
			}
			p, err := st.Events(t.Context(), "", 100)
			if err != nil || len(p.Events) != 5 {
				t.Fatalf("%d events, %v", len(p.Events), err)
			}
			follower := p.Next
			now = now.Add(31 * 24 * time.Hour)
			items := e.Items("E#")
			var drop []table.Key
			for _, it := range items {
				if !it.Expires.IsZero() {
					drop = append(drop, it.Key)
				}
			}
			if err := e.Table().DeleteAll(t.Context(), drop[left:]); err != nil {
				t.Fatal(err)
			}
			if p, err = st.Events(t.Context(), "", 100); err != nil || len(p.Events) != 0 {
				t.Fatalf("%d expired events are shown, %v", len(p.Events), err)
			}
			slow := store.New(e.Table(), func() time.Time { return now.Add(-2 * 24 * time.Hour) })
			tell(st)
			tell(slow) // to whose clock the old items have not expired
			tell(st)
			if p, err = st.Events(t.Context(), follower, 100); err != nil || len(p.Events) != 3 {
				t.Errorf("a follower sees %d of the 3 new events, %v", len(p.Events), err)
			}
		})
	}
}

// TestAnEventIsKeptAsLongAsItsPredecessors, although the setting has become shorter: otherwise the
// last item could go before others, and its number would be given twice.
func TestAnEventIsKeptAsLongAsItsPredecessors(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	e := memory.New(func() time.Time { return now }, nil)
	for i, keep := range []time.Duration{30 * 24 * time.Hour, 24 * time.Hour} {
		st := store.New(e.Table(), func() time.Time { return now }).WithEvents(keep, nil)
		end, _ := events.EndOf("01", events.About{}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, Position: i, State: activity.Dead, UpdatedAt: now})
		if err := st.AppendEnds(t.Context(), []events.End{end}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	var last time.Time
	for _, it := range e.Items("E#") {
		if it.Expires.IsZero() {
			continue // where the log began
		}
		if it.Expires.Before(last) {
			t.Errorf("%s expires %v before the item before it", it.SK, last.Sub(it.Expires))
		}
		last = it.Expires
	}
}

// TestAReaderMissesNothingOfARestoredFeed: the reader has cursors after events that a backup does
// not have, from before the restore and from an earlier restore of the same backup.
func TestAReaderMissesNothingOfARestoredFeed(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	n := 0
	tell := func(st *store.Store, many int) {
		for range many {
			n++
			now = now.Add(time.Second)
			id := activity.DerivedID(now, fmt.Sprint(n))
			end, _ := events.EndOf(id, events.About{}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, State: activity.Dead, UpdatedAt: now})
			if err := st.AppendEnds(t.Context(), []events.End{end}); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := memory.New(clock, nil)
	tell(store.New(first.Table(), clock), 40)
	backup := first.Items("")
	restored := func() *store.Store {
		e := memory.New(clock, nil)
		if err := e.Table().PutAll(t.Context(), backup); err != nil {
			t.Fatal(err)
		}
		st := store.New(e.Table(), clock)
		if err := st.BeginEventsAnew(t.Context()); err != nil {
			t.Fatal(err)
		}
		return st
	}
	tell(store.New(first.Table(), clock), 80)
	cursor, lives := "", []*store.Store{store.New(first.Table(), clock), restored(), nil}
	for i, want := range []int{120, 40, 40} {
		st := lives[i]
		if i == 2 {
			st = restored()
		}
		if i > 0 {
			now = now.Add(time.Second)
			tell(st, 40)
		}
		p, err := st.Events(t.Context(), cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		got := len(p.Events)
		for p.More {
			if p, err = st.Events(t.Context(), p.Next, 1000); err != nil {
				t.Fatal(err)
			}
			got += len(p.Events)
		}
		if got != want {
			t.Errorf("life %d: a reader sees %d events, want %d", i, got, want)
		}
		cursor = p.Next
	}
}

// TestATimeIsFoundInTheFeed: a reader that begins at a time gets what was appended then and later,
// whatever gaps the numbers of the logs have.
func TestATimeIsFoundInTheFeed(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	now := start
	clock := func() time.Time { return now }
	st := store.New(memory.New(clock, nil).Table(), clock)
	from := func(at time.Time) (told []time.Time) {
		t.Helper()
		cursor, err := st.EventsSince(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		p, err := st.Events(t.Context(), cursor, 1000)
		if err != nil || p.More {
			t.Fatal(p.More, err)
		}
		for _, e := range p.Events {
			told = append(told, e.Time)
		}
		return told
	}
	if told := from(now); len(told) != 0 {
		t.Errorf("%v in an empty feed", told)
	}
	var all []time.Time
	for i := range 90 {
		now = now.Add(time.Duration(i%3) * time.Second)
		if i == 30 || i == 60 {
			if err := st.BeginEventsAnew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		end, _ := events.EndOf(activity.DerivedID(now, fmt.Sprint(i)), events.About{}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, State: activity.Dead, UpdatedAt: now})
		if err := st.AppendEnds(t.Context(), []events.End{end}); err != nil {
			t.Fatal(err)
		}
		all = append(all, now)
	}
	for at := start.Add(-time.Second); at.Before(now.Add(2 * time.Second)); at = at.Add(500 * time.Millisecond) {
		want := slices.DeleteFunc(slices.Clone(all), func(told time.Time) bool { return told.Before(at) })
		if got := from(at); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("from %s on there are %d events, want %d", at, len(got), len(want))
		}
	}
}

// distant is a table whose reads take a while, and that counts items read and single writes.
type distant struct {
	table.Table
	reads, writes atomic.Int64
}

func (d *distant) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	time.Sleep(5 * time.Millisecond)
	items, more, err := d.Table.Query(ctx, r)
	d.reads.Add(int64(len(items)))
	return items, more, err
}

func (d *distant) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	d.writes.Add(1)
	return d.Table.Put(ctx, it, cond)
}

func (d *distant) Transact(ctx context.Context, ops []table.Op) error {
	d.writes.Add(1)
	return d.Table.Transact(ctx, ops)
}

// TestWritersOfOneProcessAreNotInEachOthersWay: if a hundred writers read the end of a log at once,
// ninety-nine would write in vain, and read it again.
func TestWritersOfOneProcessAreNotInEachOthersWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &distant{Table: memory.New(time.Now, nil).Table()}
		st := store.New(d, time.Now)
		tell := func(position int) { tellDead(t, st, position, time.Now()) }
		tell(0) // begins the log
		const writers = 100
		before := d.writes.Load()
		var all sync.WaitGroup
		for n := range writers {
			all.Go(func() { tell(1 + n) })
		}
		all.Wait()
		if made := d.writes.Load() - before; made != writers {
			t.Errorf("%d writes were made for %d events, want one each", made, writers)
		}
	})
}

func tellDead(t *testing.T, st *store.Store, position int, at time.Time) {
	end, _ := events.EndOf("01", events.About{}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, Position: position, State: activity.Dead, UpdatedAt: at})
	if err := st.AppendEnds(t.Context(), []events.End{end}); err != nil {
		t.Error(err)
	}
}

// TestAWriterReadsOfALogWhatIsNew: its own item and the one before, however old the ends are,
// and what other processes have appended, which it does not append again.
func TestAWriterReadsOfALogWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &distant{Table: memory.New(time.Now, nil).Table()}
		st, other := store.New(d, time.Now), store.New(d, time.Now)
		const told = 50
		for n := range told {
			tellDead(t, st, n, began)
		}
		d.reads.Store(0)
		for n := range told {
			tellDead(t, st, told+n, began)
		}
		if reads := d.reads.Load(); reads != 2*told {
			t.Errorf("%d items were read to tell of %d ends, want %d", reads, told, 2*told)
		}
		tellDead(t, other, 1000, began)
		tellDead(t, st, 1000, began)
		tellDead(t, st, 0, began)
		shown := 0
		for cursor := ""; ; {
			p, err := st.Events(t.Context(), cursor, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Events) == 0 {
				break
			}
			shown, cursor = shown+len(p.Events), p.Next
		}
		if shown != 2*told+1 {
			t.Errorf("%d events are shown, want each end once, %d", shown, 2*told+1)
		}
	})
}
