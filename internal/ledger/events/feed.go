package events

import (
	"context"
	"slices"
	"time"
)

// Feed reads the feed for one installation's readers.
type Feed struct {
	Store Store
	Bell  *Bell
	// Every is how often a reader that waits looks again by itself. Default 2 s.
	Every time.Duration
}

// Query is what a reader asks for.
type Query struct {
	After string
	// Kinds to return; none: all.
	Kinds []Kind
	Limit int
	// Wait is how long to wait for an event if there is none.
	Wait time.Duration
}

// mostSkipped is how many events of other kinds one call passes over. A call that has
// passed over so many returns what it found, and a cursor to go on from.
const mostSkipped = 5000

// Read returns events, at once if there are any, else when the first comes. If none comes
// within q.Wait, the page is empty.
func (f Feed) Read(ctx context.Context, q Query) (Page, error) {
	end := time.Now().Add(q.Wait)
	for {
		ring := f.Bell.Next()
		p, err := f.look(ctx, q)
		if err != nil || len(p.Events) > 0 || p.More {
			return p, err
		}
		q.After = p.Next
		left := time.Until(end)
		if left <= 0 || f.Bell.Stopped() {
			return p, nil
		}
		pause := time.NewTimer(min(left, f.every()))
		select {
		case <-ctx.Done():
			pause.Stop()
			return p, nil // the reader goes on from here
		case <-ring:
			pause.Stop()
		case <-pause.C:
		}
	}
}

func (f Feed) every() time.Duration {
	if f.Every > 0 {
		return f.Every
	}
	return 2 * time.Second
}

// look returns the events of q's kinds that there are.
func (f Feed) look(ctx context.Context, q Query) (Page, error) {
	found := Page{Events: []Event{}, Next: q.After, More: true}
	for skipped := 0; skipped < mostSkipped; {
		p, err := f.Store.Events(ctx, found.Next, q.Limit-len(found.Events))
		if err != nil {
			return Page{}, err
		}
		for _, e := range p.Events {
			if len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind) {
				found.Events = append(found.Events, e)
			} else {
				skipped++
			}
		}
		found.Next, found.More = p.Next, p.More
		if !p.More || len(found.Events) >= q.Limit {
			break
		}
	}
	return found, nil
}
