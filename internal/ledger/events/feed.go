package events

import (
	"context"
	"slices"
	"time"
)

// Feed reads the feed for one installation's readers.
type Feed struct {
	Store    Store
	Notifier *Notifier
}

// pollEvery is how often a reader that waits polls.
const pollEvery = 2 * time.Second

// Query is what a reader asks for.
type Query struct {
	After string
	// Kinds to return; none: all.
	Kinds []Kind
	Limit int
	// Wait is how long to wait for an event if there is none.
	Wait time.Duration
}

// mostSkipped is how many events of other kinds one call skips before it returns a page.
const mostSkipped = 5000

// Read returns events, at once if there are any, else when the first comes. If none comes
// within q.Wait, the page is empty.
func (f Feed) Read(ctx context.Context, q Query) (Page, error) {
	end := time.Now().Add(q.Wait)
	for {
		notified, looked := f.Notifier.Next(), time.Now()
		p, err := f.look(ctx, q)
		if err != nil || len(p.Events) > 0 || p.More {
			return p, err
		}
		q.After = p.Next
		left := time.Until(end)
		if left <= 0 || f.Notifier.Stopped() {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, nil // the reader goes on from here
		case <-notified:
		case <-time.After(min(left, pollEvery)):
		}
		// Each of many events may notify, and each look reads all logs.
		select {
		case <-ctx.Done():
			return p, nil
		case <-time.After(min(left, time.Until(looked.Add(together)))):
		}
	}
}

// look returns the events of q's kinds that there are.
func (f Feed) look(ctx context.Context, q Query) (Page, error) {
	found := Page{Events: []Event{}, Next: q.After, More: true}
	for skipped := 0; skipped < mostSkipped; {
		p, wanted, err := f.some(ctx, found.Next, q, q.Limit-len(found.Events))
		if err != nil {
			return Page{}, err
		}
		found.Events = append(found.Events, wanted...)
		skipped += len(p.Events) - len(wanted)
		found.Next, found.More = p.Next, p.More
		if !p.More || len(found.Events) >= q.Limit {
			break
		}
	}
	return found, nil
}

// leastRead is how many events are read at a time if only some kinds are wanted. With less, a reader
// of one event could cost a read of all logs for each event that is skipped.
const leastRead = 500

// some reads a part of the feed that has at most a number of events of q's kinds, and
// returns these, too.
func (f Feed) some(ctx context.Context, after string, q Query, most int) (p Page, wanted []Event, err error) {
	limit := most
	if len(q.Kinds) > 0 {
		limit = max(most, leastRead)
	}
	for {
		if p, err = f.Store.Events(ctx, after, limit); err != nil {
			return Page{}, nil, err
		}
		wanted = wanted[:0]
		for i, e := range p.Events {
			if len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind) {
				continue
			}
			if len(wanted) == most {
				limit = i // only cursors after a page are known, so the page ends before this one
				break
			}
			wanted = append(wanted, e)
		}
		if len(p.Events) <= limit {
			return p, wanted, nil
		}
	}
}
