package store

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/engine/table"
)

// merged are the items of several ranges in the order of their sort keys.
type merged struct {
	t       table.Table
	lists   []*mergedList
	queries int
}

type mergedList struct {
	rest  table.Range // what is to be read; its Limit is how much at once
	items []table.Item
	more  bool
}

const (
	// mergeAtOnce is how many ranges are read concurrently at the beginning.
	mergeAtOnce = 16
	// mergeFirst is how many items of each range are read at the beginning. The number
	// doubles with each read of a range, up to mergeMost.
	mergeFirst = 4
	mergeMost  = 1000
)

// merge returns the items of ranges whose sort keys are after a key, or all.
func merge(t table.Table, ranges []table.Range, from string) *merged {
	m := &merged{t: t}
	for _, r := range ranges {
		r.From = max(r.From, after(from))
		r.Limit = mergeFirst
		if len(ranges) == 1 {
			r.Limit = 100
		}
		m.lists = append(m.lists, &mergedList{rest: r, more: true})
	}
	return m
}

// next returns the next item, if there is one more.
func (m *merged) next(ctx context.Context) (it table.Item, ok bool, err error) {
	if m.queries == 0 {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(mergeAtOnce)
		for _, l := range m.lists {
			g.Go(func() error { return l.read(ctx, m.t) })
		}
		if err := g.Wait(); err != nil {
			return table.Item{}, false, err
		}
		m.queries = len(m.lists)
	}
	var first *mergedList
	for _, l := range m.lists {
		if len(l.items) == 0 && l.more {
			if err := l.read(ctx, m.t); err != nil {
				return table.Item{}, false, err
			}
			m.queries++
		}
		if len(l.items) > 0 && (first == nil || l.items[0].SK < first.items[0].SK) {
			first = l
		}
	}
	if first == nil {
		return table.Item{}, false, nil
	}
	it, first.items = first.items[0], first.items[1:]
	return it, true, nil
}

// read reads on in the range.
func (l *mergedList) read(ctx context.Context, t table.Table) (err error) {
	if l.items, l.more, err = t.Query(ctx, l.rest); err != nil {
		return fmt.Errorf("read %s: %w", l.rest.PK, err)
	}
	if l.more {
		l.rest.From = l.items[len(l.items)-1].SK + "\x00"
		l.rest.Limit = min(2*l.rest.Limit, mergeMost)
	}
	return nil
}
