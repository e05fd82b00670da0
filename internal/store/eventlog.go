package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
)

// eventItem is an item of a log of events: package events says why there are logs.
type eventItem struct {
	Time   int64      `json:"t"`
	Events []eventRow `json:"e"`
}

// eventRow is one event. Its time is that of the item, and its host that of its inbox, if it has
// one.
type eventRow struct {
	events.Event
	Since int64 `json:"s,omitempty"`
}

func rowOf(e events.Event) eventRow {
	r := eventRow{e, millis(e.Since)}
	if activity.HostOf(r.Inbox) == r.Host {
		r.Host = ""
	}
	return r
}

func (r eventRow) event(at time.Time) events.Event {
	e := r.Event
	e.Time, e.Since, e.Host = at, fromMillis(r.Since), cmp.Or(r.Host, activity.HostOf(r.Inbox))
	return e
}

func eventPK(shard int) string { return fmt.Sprintf("E#%d", shard) }

func eventSK(number uint64) string { return fmt.Sprintf("%016x", number) }

// startKey is the key of the item that says with which number a log has begun. The item never
// expires, because a log begins again when all of its items have expired.
func startKey(shard int) table.Key { return table.Key{PK: "E#START", SK: strconv.Itoa(shard)} }

// stride is the least distance between two first numbers of a log: more than it ever has items.
const stride = 1 << 32

// firstNumber is the first number of a log that begins again; before is the one it had before, 0 if
// it never began. It depends on the time, because a restored backup does not have the numbers that
// were given after it was made.
func firstNumber(before uint64, now time.Time) uint64 {
	const perMilli, latest = 1 << 20, 1 << 61 // events.ParseCursor takes less than twice latest
	return max(before+stride, min(uint64(max(0, now.UnixMilli()))*perMilli, latest))
}

// logItem is an item of a log as it was read.
type logItem struct {
	eventItem
	number  uint64
	expires time.Time
}

func (l logItem) time() time.Time { return fromMillis(l.Time) }

func unpackEvents(it table.Item) (l logItem, err error) {
	if l.number, err = strconv.ParseUint(it.SK, 16, 64); err != nil {
		return l, fmt.Errorf("%q is not the number of an item of events: %w", it.SK, err)
	}
	l.expires = it.Expires
	return l, eventPacking.unpack(it, &l.eventItem)
}

type logEnd struct {
	last *logItem // nil: the log is empty
	// known has the ids of all events in the log since a time.
	known map[string]bool
	since time.Time
}

// logWriters is what the writers of one process share of a log. Whoever holds lock may read and
// change known, the end of the log as it was read last.
type logWriters struct {
	lock  chan struct{} // of one element
	known logEnd
}

// mostKnown bounds how many ids of events a process keeps of a log.
const mostKnown = 10_000

func (s *Store) logEnd(ctx context.Context, shard int, since time.Time) (logEnd, error) {
	log := s.logs[shard]
	end := log.known
	log.known = logEnd{}
	known := end.last
	end.last = nil
	if known != nil && !since.Before(end.since) {
		if err := s.readLog(ctx, shard, eventSK(known.number), &end); err != nil {
			return end, err
		}
	}
	if end.last == nil {
		// Too little is known, or what was the last item is gone.
		end = logEnd{known: map[string]bool{}, since: since}
		if err := s.readLog(ctx, shard, "", &end); err != nil {
			return end, err
		}
	}
	if len(end.known) <= mostKnown {
		log.known = end
	}
	return end, nil
}

func (s *Store) readLog(ctx context.Context, shard int, from string, end *logEnd) error {
	r := table.Range{PK: eventPK(shard), From: from, Newest: true, Limit: 2}
	for {
		items, more, err := s.t.Query(ctx, r)
		if err != nil {
			return fmt.Errorf("read the end of event log %d: %w", shard, err)
		}
		for _, it := range items {
			l, err := unpackEvents(it)
			if err != nil {
				return err
			}
			if end.last == nil {
				end.last = &l
			}
			if l.Time < millis(end.since) {
				return nil
			}
			for _, e := range l.Events {
				end.known[e.ID] = true
			}
			r.To = it.SK
		}
		if !more {
			return nil
		}
		r.Limit = 64
	}
}

// appendTries bounds how often an append is repeated because others were faster.
const appendTries = 40

// errBusyLog says that a log took others' events all the time. Trying later helps.
var errBusyLog = errors.New("others kept writing to the log of events")

// appending is what is to be appended to a log.
type appending struct {
	shard int
	// events returns the events to append: those that are not in known, the ids that the log has.
	// It may be called again.
	events func(known map[string]bool) ([]events.Event, error)
	// None of the events is in the log before since. The item's time is until or later.
	since, until time.Time
	// with is written in the same transaction. A conflict of one of them is returned.
	with []table.Op
	// anew: the log begins again.
	anew bool
}

// appendTo appends an item to a log, unless the log has all events already. Writers of one process
// run one after another: of several that read the same end only one can append to it.
func (s *Store) appendTo(ctx context.Context, t appending) error {
	select {
	case s.logs[t.shard].lock <- struct{}{}:
		defer func() { <-s.logs[t.shard].lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var start *table.Item
	for try := range appendTries {
		end, err := s.logEnd(ctx, t.shard, t.since)
		if err != nil {
			return err
		}
		if start == nil && (t.anew || !s.goesOn(end.last)) {
			// The log's beginning is read before its end: a writer that begins the log in between
			// then conflicts with this one.
			if start, err = s.logStart(ctx, t.shard); err != nil {
				return err
			}
			continue
		}
		es, err := t.events(end.known)
		if err != nil || len(es) == 0 && len(t.with) == 0 && !t.anew {
			return err
		}
		ops, err := s.nextItem(t, start, end.last, es)
		if err != nil {
			return err
		}
		ops = append(ops, t.with...)
		if len(ops) == 1 {
			err = s.t.Put(ctx, *ops[0].Put, ops[0].Cond)
		} else {
			err = s.t.Transact(ctx, ops)
		}
		conflict, ok := errors.AsType[*table.ConflictError](err)
		switch {
		case err == nil:
			s.notifier.Appended(es)
			return nil
		case !ok:
			return fmt.Errorf("append to event log %d: %w", t.shard, err)
		case slices.ContainsFunc(t.with, func(o table.Op) bool { return o.Put.Key == conflict.Key }):
			return conflict
		}
		start = nil
		if err := pause(ctx, 5*time.Millisecond<<min(try, 6)); err != nil {
			return err
		}
	}
	return fmt.Errorf("append to event log %d: %w", t.shard, errBusyLog)
}

// pause waits for a random time, so that writers that conflicted do not meet again.
func pause(ctx context.Context, longest time.Duration) error {
	// The simulator repeats what crypto/rand draws, not what math/rand/v2 does.
	n, err := rand.Int(rand.Reader, big.NewInt(int64(longest)))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(n.Int64())):
	}
	return ctx.Err()
}

func (s *Store) nextItem(t appending, start *table.Item, last *logItem, es []events.Event) ([]table.Op, error) {
	at, expires := latest(s.now(), t.until), s.now().Add(s.keepEvents)
	if last != nil {
		at, expires = latest(at, last.time()), latest(expires, last.expires)
	}
	var ops []table.Op
	var number uint64
	if start == nil || !t.anew && s.goesOn(last) {
		number = last.number + 1
	} else {
		var err error
		if number, ops, err = s.beginLog(t.shard, start, last); err != nil {
			return nil, err
		}
	}
	item := eventItem{Time: millis(at), Events: make([]eventRow, len(es))}
	if fromMillis(item.Time).Before(at) {
		item.Time++ // no end is later than its item
	}
	for i, e := range es {
		item.Events[i] = rowOf(e)
	}
	op, err := numbered(t.shard, number, item, expires)
	return append(ops, op), err
}

// numbered is the write of an item of a log under a number that no other item has.
func numbered(shard int, number uint64, item eventItem, expires time.Time) (table.Op, error) {
	it, err := eventPacking.item(table.Key{PK: eventPK(shard), SK: eventSK(number)}, item, expires)
	it.Fence = newFence()
	return table.Op{Put: &it, Cond: table.Cond{Absent: true}}, err
}

// BeginEventsAnew continues all logs with numbers that were never used. It is for a table that may
// be a restored backup. A reader's cursor may be after events that the backup does not have; the
// reader would skip as many new ones.
func (s *Store) BeginEventsAnew(ctx context.Context) error {
	var g errgroup.Group
	for n := range events.Shards {
		nothing := func(map[string]bool) ([]events.Event, error) { return nil, nil }
		g.Go(func() error { return s.appendTo(ctx, appending{shard: n, events: nothing, since: s.now(), anew: true}) })
	}
	return wrapped(g.Wait(), "begin the feed of events anew")
}

// goesOn reports whether a log goes on after its last item. Items expire in order, so the last item
// of a log is the newest that it ever had, unless that one has expired.
func (s *Store) goesOn(last *logItem) bool {
	return last != nil && last.expires.After(s.now().Add(time.Hour))
}

// logStart returns the item that says with which number a log has begun; without data, if
// it has never begun.
func (s *Store) logStart(ctx context.Context, shard int) (*table.Item, error) {
	key := startKey(shard)
	items, err := s.t.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("begin event log %d: %w", shard, err)
	}
	it := items[key]
	return &it, nil
}

// beginLog begins a log that is empty, or whose items have all expired, with a number above all
// that it ever had.
func (s *Store) beginLog(shard int, start *table.Item, last *logItem) (number uint64, ops []table.Op, err error) {
	key := startKey(shard)
	before, cond := uint64(0), table.Cond{Absent: true}
	if len(start.Data) > 0 {
		if before, err = strconv.ParseUint(string(start.Data), 16, 64); err != nil {
			return 0, nil, fmt.Errorf("begin event log %d: %w", shard, err)
		}
		cond = table.Fenced(start.Fence)
	}
	number = firstNumber(before, s.now())
	ops = append(ops, table.Op{Put: &table.Item{Key: key, Fence: newFence(), Data: []byte(eventSK(number))}, Cond: cond})
	if last == nil {
		return number, ops, nil
	}
	// If another writer's clock is behind, the last item has not expired for that writer. So this
	// item takes the number to which that writer would append.
	taken, err := numbered(shard, last.number+1, eventItem{Time: last.Time}, s.now().Add(s.keepEvents))
	return number, append(ops, taken), err
}
