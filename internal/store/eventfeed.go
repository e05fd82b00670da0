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

// take puts events of the first item on the page, until the page is full, and returns the position
// after them.
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
	cursor, err := cursorOf(ctx, func(ctx context.Context, log int) (uint64, error) {
		last, _, err := s.firstOf(ctx, log, table.Range{Newest: true})
		return last.number, err
	})
	return cursor, wrapped(err, "read the end of the feed")
}

// EventsSince returns the cursor before the first event at or after a time. The
// times of a log's items grow with their numbers, so that some 20 reads of each log find it.
func (s *Store) EventsSince(ctx context.Context, since time.Time) (string, error) {
	cursor, err := cursorOf(ctx, func(ctx context.Context, log int) (uint64, error) { return s.logSince(ctx, log, since) })
	return cursor, wrapped(err, "find a time in the feed")
}

// cursorOf is the cursor after the item of each log whose number position returns.
func cursorOf(ctx context.Context, position func(ctx context.Context, log int) (uint64, error)) (string, error) {
	var cursor events.Cursor
	g, gctx := errgroup.WithContext(ctx)
	for n := range cursor {
		g.Go(func() (err error) {
			cursor[n].Number, err = position(gctx, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	return cursor.String(), nil
}

// firstOf returns the first item in a range of a log; ok is false if there is none.
func (s *Store) firstOf(ctx context.Context, log int, r table.Range) (l logItem, ok bool, err error) {
	r.PK, r.Limit = eventPK(log), 1
	found, _, err := s.t.Query(ctx, r)
	if err != nil || len(found) == 0 {
		return l, false, err
	}
	l, err = unpackEvents(found[0])
	return l, true, err
}

// logSince is the number of the last item of a log that is older than since; 0 if none is.
func (s *Store) logSince(ctx context.Context, log int, since time.Time) (uint64, error) {
	first, ok, err := s.firstOf(ctx, log, table.Range{})
	if err != nil || !ok || first.Time >= millis(since) {
		return 0, err
	}
	last, _, err := s.firstOf(ctx, log, table.Range{Newest: true})
	if err != nil || last.Time < millis(since) {
		return last.number, err
	}
	// The item of old is older than since, and all from young on are not.
	old, young := first.number, last.number
	for young-old > 1 {
		middle := old + (young-old)/2
		l, ok, err := s.firstOf(ctx, log, table.Range{From: eventSK(middle)})
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

var _ events.Marks = (*Store)(nil)

// markKey is of the mark of a reader of the feed. Marks never expire.
func markKey(reader string) table.Key { return table.Key{PK: "E#MARK", SK: keyName(reader)} }

func (s *Store) Mark(ctx context.Context, reader string) (cursor, version string, err error) {
	it, _, err := s.one(ctx, markKey(reader))
	if err != nil || it == nil {
		return "", "", wrapped(err, "mark of reader %s", reader)
	}
	return string(it.Data), it.Fence, nil
}

func (s *Store) SetMark(ctx context.Context, reader, cursor, version string) (next string, err error) {
	it := table.Item{Key: markKey(reader), Data: []byte(cursor)}
	if err := s.swap(ctx, &it, s.ofVersion(version)); err != nil {
		return "", fmt.Errorf("mark of reader %s: %w", reader, onConflict(err, events.ErrChanged))
	}
	return it.Fence, nil
}
