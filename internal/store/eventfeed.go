package store

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
)

// ahead is how many items of a log are read for a page. Most items have only a few events.
const ahead = 25

// Events implements events.Store. It merges the logs by their times.
func (s *Store) Events(ctx context.Context, after string, limit int) (events.Page, error) {
	cursor, err := events.ParseCursor(after)
	if err != nil {
		return events.Page{}, err
	}
	var logs [events.Shards]logPage
	g, gctx := errgroup.WithContext(ctx)
	for n := range logs {
		g.Go(func() (err error) {
			logs[n], err = s.logPage(gctx, n, cursor[n], min(ahead, max(1, limit)))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return events.Page{}, fmt.Errorf("read the feed: %w", err)
	}
	page := events.Page{Events: []events.Event{}}
	for {
		n, ok := earliest(logs[:])
		if !ok {
			break
		}
		l := &logs[n]
		if len(page.Events) >= limit && len(l.items[0].Events) > 0 {
			page.More = true
			break
		}
		cursor[n] = l.take(&page, limit)
		if len(l.items) == 0 && l.more {
			// What comes next in this log may be earlier than what the others have.
			page.More = true
			break
		}
	}
	page.Next = cursor.String()
	return page, nil
}

// logPage is what was read of a log for a page of the feed.
type logPage struct {
	items  []logItem
	within int // events of the first item that are on an earlier page
	more   bool
}

func (s *Store) logPage(ctx context.Context, n int, at events.Position, limit int) (l logPage, err error) {
	r := table.Range{PK: eventPK(n), From: eventSK(at.Number + 1), Limit: limit}
	if at.Within > 0 {
		r.From = eventSK(at.Number)
	}
	found, more, err := s.t.Query(ctx, r)
	if err != nil {
		return l, err
	}
	l.more = more
	for _, it := range found {
		one, err := unpackEvents(it)
		if err != nil {
			return l, err
		}
		if s.expired(it) {
			one.Events = nil
		}
		l.items = append(l.items, one)
	}
	if len(l.items) > 0 && at.Within > 0 && l.items[0].number == at.Number {
		l.within = min(at.Within, len(l.items[0].Events))
	}
	return l, nil
}

// earliest is the log whose next item has the earliest time.
func earliest(logs []logPage) (n int, ok bool) {
	for i, l := range logs {
		if len(l.items) > 0 && (!ok || l.items[0].Time < logs[n].items[0].Time) {
			n, ok = i, true
		}
	}
	return n, ok
}

// take puts events of the first item on the page, until the page is full, and returns the
// position behind them.
func (l *logPage) take(page *events.Page, limit int) events.Position {
	it := l.items[0]
	for ; l.within < len(it.Events) && len(page.Events) < limit; l.within++ {
		page.Events = append(page.Events, it.Events[l.within].event(it.time()))
	}
	if l.within < len(it.Events) {
		return events.Position{Number: it.number, Within: l.within}
	}
	l.items, l.within = l.items[1:], 0
	return events.Position{Number: it.number}
}

func (s *Store) EventsEnd(ctx context.Context) (string, error) {
	var cursor events.Cursor
	g, gctx := errgroup.WithContext(ctx)
	for n := range cursor {
		g.Go(func() error {
			found, _, err := s.t.Query(gctx, table.Range{PK: eventPK(n), Newest: true, Limit: 1})
			if err != nil || len(found) == 0 {
				return err
			}
			l, err := unpackEvents(found[0])
			cursor[n].Number = l.number
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", fmt.Errorf("read the end of the feed: %w", err)
	}
	return cursor.String(), nil
}

// EventsSince returns the cursor before the first event at or after a time. The
// times of a log's items grow with their numbers, so that some 20 reads of each log find it.
func (s *Store) EventsSince(ctx context.Context, since time.Time) (string, error) {
	var cursor events.Cursor
	g, gctx := errgroup.WithContext(ctx)
	for n := range cursor {
		g.Go(func() (err error) {
			cursor[n].Number, err = s.logSince(gctx, n, since)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", fmt.Errorf("find a time in the feed: %w", err)
	}
	return cursor.String(), nil
}

// logSince is the number of the last item of a log that is older than since; 0 if none is.
func (s *Store) logSince(ctx context.Context, log int, since time.Time) (uint64, error) {
	read := func(r table.Range) (l logItem, ok bool, err error) {
		r.PK, r.Limit = eventPK(log), 1
		found, _, err := s.t.Query(ctx, r)
		if err != nil || len(found) == 0 {
			return l, false, err
		}
		l, err = unpackEvents(found[0])
		return l, true, err
	}
	first, ok, err := read(table.Range{})
	if err != nil || !ok || first.Time >= millis(since) {
		return 0, err
	}
	last, _, err := read(table.Range{Newest: true})
	if err != nil || last.Time < millis(since) {
		return last.number, err
	}
	// The item of old is older than since, and all from young on are not.
	old, young := first.number, last.number
	for young-old > 1 {
		middle := old + (young-old)/2
		l, ok, err := read(table.Range{From: eventSK(middle)})
		switch {
		case err != nil:
			return 0, err
		case !ok || l.number >= young || l.Time >= millis(since):
			young = middle
		default:
			old = l.number
		}
	}
	return old, nil
}
