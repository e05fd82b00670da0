package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

var _ ledger.Index = (*Store)(nil)

// listedItem is ledger.Listed as it is stored.
type listedItem struct {
	ledger.Listed
	CreatedAt int64 `json:"createdAt"`
}

// listShards is over how many partitions the list of a day is spread. A sender's activities are in
// one of them, in the order of time, among those of other senders. The list of all senders merges
// the partitions; the list of one sender reads one.
const listShards = 128

func ownIDPK(activityID string) string { return "I#" + digest(activityID, 16) }

func listPK(day string, shard int) string { return fmt.Sprintf("F#%s#%03d", day, shard) }

// Lists once had four partitions a day, in the order of senders. Activities in them are
// found for as long as they are stored, each day's after those of its new lists.
const (
	oldShards   = 4
	oldListName = "F#%s#%d"
)

func senderPart(sender string) string { return digest(sender, 8) + "#" }

// backwards is larger for earlier times, so that the latest activity sorts first.
func backwards(t time.Time) string { return fmt.Sprintf("%013d", 9_999_999_999_999-t.UnixMilli()) }

func (s *Store) ListActivities(ctx context.Context, ls []ledger.Listed) error {
	items := make(map[table.Key]table.Item, 2*len(ls))
	for _, l := range ls {
		i := listedItem{l, millis(l.CreatedAt)}
		if i.Actor == i.Sender {
			i.Actor = ""
		}
		data, err := activityPacking.pack(i)
		if err != nil {
			return err
		}
		keys := []table.Key{listKey(l, l.Sender)}
		if author := activity.Document(l.Actor); l.Actor != "" && author != l.Sender {
			keys = append(keys, listKey(l, author))
		}
		if l.ActivityID != "" {
			keys = append(keys, table.Key{PK: ownIDPK(l.ActivityID), SK: string(l.ID)})
		}
		for _, k := range keys {
			items[k] = table.Item{Key: k, Data: data, Expires: l.Forget}
		}
	}
	return wrapped(s.t.PutAll(ctx, slices.Collect(maps.Values(items))), "list activities")
}

// listKey is the key of an activity in the list of its sender, or of its actor, if that is another.
func listKey(l ledger.Listed, of string) table.Key {
	return table.Key{
		PK: listPK(l.CreatedAt.UTC().Format(time.DateOnly), shard(of, listShards)),
		SK: backwards(l.CreatedAt) + "#" + senderPart(of) + string(l.ID),
	}
}

// Bounds of one call of FindActivities. The reads of one list may exceed both.
const (
	listEntries = 10_000
	listQueries = 4 * listShards
)

func (s *Store) FindActivities(ctx context.Context, f ledger.Sought, cursor string, limit int) (ls []ledger.Listed, next string, err error) {
	if f.ActivityID == "" && f.Since.IsZero() {
		f.Since = s.now().Add(-ledger.SoughtBack)
	}
	lists := s.listsFor(f)
	if f.ID != "" {
		r, err := s.Activity(ctx, f.ID)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		f.Since, lists = time.Time{}, []list{listOfMillisecond(r.CreatedAt)}
	}
	n, after, err := parseListCursor(lists, cursor)
	if err != nil {
		return nil, "", err
	}
	for entries, queries := 0, 0; n < len(lists); n, after = n+1, "" {
		m := merge(s.t, lists[n].ranges, after)
		for {
			if len(ls) >= max(1, limit) || entries >= listEntries || queries+m.queries >= listQueries {
				return ls, lists[n].cursor(after), nil
			}
			it, ok, err := m.next(ctx)
			if err != nil {
				return nil, "", fmt.Errorf("find activities: %w", err)
			}
			if !ok {
				break
			}
			entries++
			after = it.SK
			l, ok, err := s.listed(f, it)
			if err != nil {
				return nil, "", err
			}
			if ok {
				l.Cursor = lists[n].cursor(after)
				ls = append(ls, l)
			}
		}
		queries += m.queries
	}
	return ls, "", nil
}

// list is a list of activities that is spread over ranges.
type list struct {
	name   string
	ranges []table.Range
}

// listsFor returns the lists that can have what f looks for, in order.
func (s *Store) listsFor(f ledger.Sought) (all []list) {
	if f.ActivityID != "" {
		return []list{{"id", []table.Range{{PK: ownIDPK(f.ActivityID)}}}}
	}
	now := s.now().UTC()
	since := latest(f.Since.UTC(), now.Add(-ledger.LongestBack))
	end := backwards(since.Add(-time.Millisecond))
	// Clocks that are ahead have recorded activities of tomorrow.
	for at := now.Add(time.Hour).Truncate(24 * time.Hour); !at.Before(since.Truncate(24 * time.Hour)); at = at.Add(-24 * time.Hour) {
		day := at.Format(time.DateOnly)
		l := list{name: day}
		for _, n := range shardsOf(f.Sender, listShards) {
			l.ranges = append(l.ranges, table.Range{PK: listPK(day, n), To: end})
		}
		all = append(all, l)
		for _, n := range shardsOf(f.Sender, oldShards) {
			prefix := ""
			if f.Sender != "" {
				prefix = senderPart(f.Sender)
			}
			all = append(all, list{fmt.Sprintf("%s.%d", day, n), []table.Range{table.Prefix(fmt.Sprintf(oldListName, day, n), prefix)}})
		}
	}
	return all
}

// listOfMillisecond is the list of all senders' activities of a millisecond.
func listOfMillisecond(at time.Time) list {
	l := list{name: backwards(at)}
	for n := range listShards {
		l.ranges = append(l.ranges, table.Prefix(listPK(at.UTC().Format(time.DateOnly), n), backwards(at)+"#"))
	}
	return l
}

// shardsOf returns the one of n shards that a name is in, or all of them if the name is empty.
func shardsOf(name string, n int) (all []int) {
	if name != "" {
		return []int{shard(name, n)}
	}
	for i := range n {
		all = append(all, i)
	}
	return all
}

// listed reads an item, and reports whether it is what f looks for.
func (s *Store) listed(f ledger.Sought, it table.Item) (ledger.Listed, bool, error) {
	if s.expired(it) || f.ActivityID == "" && f.Sender != "" && !strings.Contains(it.SK, senderPart(f.Sender)) {
		return ledger.Listed{}, false, nil
	}
	var i listedItem
	if err := activityPacking.unpack(it, &i); err != nil {
		return ledger.Listed{}, false, err
	}
	l := i.Listed
	l.ID, l.Actor = activity.ID(it.SK[strings.LastIndexByte(it.SK, '#')+1:]), cmp.Or(l.Actor, l.Sender)
	l.CreatedAt, l.Forget = fromMillis(i.CreatedAt), it.Expires
	ok := (f.ID == "" || f.ID == l.ID) && (f.ActivityID == "" || f.ActivityID == l.ActivityID) && !l.CreatedAt.Before(f.Since)
	if f.Sender == "" { // of the two entries of a forwarded activity only its sender's
		return l, ok && (f.ActivityID != "" || strings.Contains(it.SK, senderPart(l.Sender))), nil
	}
	return l, ok && (f.Sender == l.Sender || f.Sender == activity.Document(l.Actor)), nil
}

// cursor names the list, and the sort key in it after which to go on.
func (l list) cursor(after string) string { return l.name + "/" + after }

func parseListCursor(lists []list, cursor string) (n int, after string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	name, after, ok := strings.Cut(cursor, "/")
	n = slices.IndexFunc(lists, func(l list) bool { return l.name == name })
	if !ok || n < 0 {
		return 0, "", fmt.Errorf("%w: %q", ledger.ErrBadCursor, cursor)
	}
	return n, after, nil
}

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
