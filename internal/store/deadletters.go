package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var _ deadletter.Store = (*Store)(nil)

// deadLetterItem is deadletter.DeadLetter as it is stored.
type deadLetterItem struct {
	Activity activity.Activity `json:"activity"`
	Delivery message.Delivery  `json:"delivery"`
	Last     chunkState        `json:"last"` // of one row
	Reason   string            `json:"reason,omitempty"`
	Died     int64             `json:"since"`
	Body     int               `json:"bodyParts,omitempty"`
}

// deadLetterShards is how many partitions a day has: when a large server is given
// up, thousands of dead letters come within a minute.
const deadLetterShards = 4

// deadLetterPartition is one partition of a day's dead letters. Its items are sorted
// by activity, so the dead letters of one activity are a range.
type deadLetterPartition struct {
	day   string
	shard int
}

func (g deadLetterPartition) pk() string { return fmt.Sprintf("D#%s#%d", g.day, g.shard) }

// cursor is where to go on after a sort key.
func (g deadLetterPartition) cursor(sk string) string {
	return fmt.Sprintf("%s.%d.%s", g.day, g.shard, sk)
}

func deadLetterKey(n deadletter.Name) table.Key {
	return table.Key{
		PK: deadLetterPartition{n.Day, shard(string(n.Activity), deadLetterShards)}.pk(),
		SK: unitKey(n.Unit),
	}
}

func (s *Store) AddDeadLetters(ctx context.Context, ls []deadletter.DeadLetter) error {
	if err := s.indexDeadLetters(ctx, ls); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	all := make([]carrier, len(ls))
	for i, l := range ls {
		all[i] = carrier{l.Activity, l.Forget, func(a activity.Activity, bodyParts int) (table.Item, error) {
			it := deadLetterItem{Activity: a, Delivery: l.Delivery, Reason: l.Reason, Died: millis(l.Died), Body: bodyParts}
			it.Last.put([]ledger.Recipient{l.Last})
			return parkedPacking.item(deadLetterKey(l.Name()), it, l.Forget)
		}}
	}
	return wrapped(s.putCarriers(ctx, all), "write dead letters")
}

func (s *Store) Named(ctx context.Context, names []deadletter.Name) ([]deadletter.DeadLetter, error) {
	return s.deadLettersNamed(ctx, deadletter.Filter{}, names)
}

func (s *Store) deadLettersNamed(ctx context.Context, f deadletter.Filter, names []deadletter.Name) ([]deadletter.DeadLetter, error) {
	found, err := s.t.Get(ctx, keysOf(names, deadLetterKey)...)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return s.deadLetters(ctx, f, slices.Collect(maps.Values(found)), "")
}

func (s *Store) RemoveDeadLetters(ctx context.Context, ls []deadletter.DeadLetter) error {
	keys := make(map[table.Key]bool, 2*len(ls))
	for _, l := range ls {
		keys[deadLetterKey(l.Name())] = true
		keys[hostIndexKey(l)] = true
		if l.Damaged != nil {
			keys[hostIndexKeyIn(staysDead, l)] = true
		}
	}
	return wrapped(s.t.DeleteAll(ctx, slices.Collect(maps.Keys(keys))), "remove dead letters")
}

// deadLetterReads is how many dead letters one call reads, whether selected or not.
const deadLetterReads = 1000

func (s *Store) DeadLetters(ctx context.Context, f deadletter.Filter, cursor string, limit int) ([]deadletter.DeadLetter, string, error) {
	switch {
	case f.Name != deadletter.Name{}:
		if cursor != "" {
			return nil, "", fmt.Errorf("%w: %q", deadletter.ErrBadCursor, cursor)
		}
		ls, err := s.deadLettersNamed(ctx, f, []deadletter.Name{f.Name})
		return ls, "", err
	case f.Host != "" && f.Activity == "":
		return s.walkHostIndex(ctx, f, hostIndexParts, cursor, limit)
	}
	partitions, err := s.deadLetterPartitions(f)
	if err != nil {
		return nil, "", err
	}
	at, after, err := parseDeadLetterCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	prefix := ""
	if f.Activity != "" {
		prefix = string(f.Activity) + "#"
	}
	partitions = slices.DeleteFunc(partitions, func(y deadLetterPartition) bool {
		return y.day < at.day || y.day == at.day && y.shard < at.shard
	})
	var ls []deadletter.DeadLetter
	read := 0
	for len(partitions) > 0 {
		partition := partitions[0]
		partitions = partitions[1:]
		r, before := table.Prefix(partition.pk(), prefix), read
		if partition == at && after != "" {
			r.From = after + "\x00"
		}
		for more := true; more; {
			r.Limit = min(max(1, limit-len(ls)), deadLetterReads-read)
			var list []table.Item
			if list, more, err = s.t.Query(ctx, r); err != nil {
				return nil, "", fmt.Errorf("list dead letters: %w", err)
			}
			some, err := s.deadLetters(ctx, f, list, "")
			if err != nil {
				return nil, "", err
			}
			ls = append(ls, some...)
			if read += len(list); len(list) > 0 && (len(ls) >= limit || read >= deadLetterReads) {
				return ls, partition.cursor(list[len(list)-1].SK), nil
			}
			if len(list) > 0 {
				r.From = list[len(list)-1].SK + "\x00"
			}
		}
		if read == before {
			if partitions, err = s.fromFirstDeadLetter(ctx, partitions, prefix); err != nil {
				return nil, "", err
			}
		}
	}
	return ls, "", nil
}

// deadLetterLooks is how many partitions are looked into at a time.
const deadLetterLooks = 32

// fromFirstDeadLetter leaves the partitions without dead letters out of the next
// ones. Most days have no dead letters: one after another, the 244 partitions of 60
// days take longer than an operator waits when each call takes a third of a second.
func (s *Store) fromFirstDeadLetter(ctx context.Context, partitions []deadLetterPartition, prefix string) ([]deadLetterPartition, error) {
	for len(partitions) > 0 {
		next := partitions[:min(deadLetterLooks, len(partitions))]
		some := make([]bool, len(next))
		g, gctx := errgroup.WithContext(ctx)
		for i, y := range next {
			g.Go(func() error {
				r := table.Prefix(y.pk(), prefix)
				r.Limit = 1
				list, _, err := s.t.Query(gctx, r)
				some[i] = len(list) > 0
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, fmt.Errorf("look for dead letters: %w", err)
		}
		var left []deadLetterPartition
		for i, y := range next {
			if some[i] {
				left = append(left, y)
			}
		}
		partitions = partitions[len(next):]
		if len(left) > 0 {
			return append(left, partitions...), nil
		}
	}
	return nil, nil
}

// deadLetterPartitions lists the partitions that can have dead letters selected by
// f, oldest first.
func (s *Store) deadLetterPartitions(f deadletter.Filter) ([]deadLetterPartition, error) {
	since := f.Since.UTC()
	if f.Activity != "" {
		// A dead letter is not older than its activity, whose id has the time.
		id, err := ulid.ParseStrict(string(f.Activity))
		if err != nil {
			return nil, fmt.Errorf("dead letters of activity %q: %w", f.Activity, err)
		}
		since = latest(since, ulid.Time(id.Time()).UTC())
	}
	now := s.now().UTC()
	since = latest(since, now.Add(-deadletter.Longest))
	var partitions []deadLetterPartition
	for day := since.Truncate(24 * time.Hour); !day.After(now); day = day.Add(24 * time.Hour) {
		for _, n := range shardsOf(string(f.Activity), deadLetterShards) {
			partitions = append(partitions, deadLetterPartition{day.Format(time.DateOnly), n})
		}
	}
	return partitions, nil
}

// deadLetters reads a list of items, and returns the dead letters that f selects. host, if
// not empty, is the host of all of them.
func (s *Store) deadLetters(ctx context.Context, f deadletter.Filter, list []table.Item, host string) ([]deadletter.DeadLetter, error) {
	var ls []deadletter.DeadLetter
	apart := make(map[activity.ID]int)
	for _, it := range list {
		if s.expired(it) {
			continue
		}
		l, bodyParts := readDeadLetter(it, host)
		if !f.Matches(l) {
			continue
		}
		if bodyParts > 0 && l.Activity.Apart.Parts == 0 {
			apart[l.Activity.ID] = bodyParts
		}
		ls = append(ls, l)
	}
	bodies, err := s.bodies(ctx, apart)
	if err != nil {
		return nil, err
	}
	for i, l := range ls {
		if l.Activity.Body != "" || l.Activity.Apart.Parts > 0 || l.Damaged != nil {
			continue
		}
		body, ok := bodies[l.Activity.ID]
		if !ok && !s.forgotten(ctx, l.Activity.ID) {
			ls[i].Damaged = errNoBody(l.Activity.ID)
		}
		ls[i].Activity.Body = body
	}
	return ls, nil
}

// readDeadLetter reads an item, and in how many parts its activity's body is kept apart.
func readDeadLetter(it table.Item, host string) (l deadletter.DeadLetter, bodyParts int) {
	var i deadLetterItem
	if err := parkedPacking.unpack(it, &i); err != nil {
		return damagedDeadLetter(it, host, err), 0
	}
	l = deadletter.DeadLetter{
		Activity: i.Activity, Delivery: i.Delivery, Reason: i.Reason, Died: fromMillis(i.Died), Forget: it.Expires,
	}
	for _, r := range i.Last.recipients() {
		l.Last = r
	}
	l.Last.Chunk = l.Delivery.Chunk
	if len(l.Delivery.Targets) > 0 {
		l.Last.Target = l.Delivery.Targets[0]
	}
	return l, i.Body
}

// damagedDeadLetter is what the key of an item says of a dead letter that cannot be read.
func damagedDeadLetter(it table.Item, host string, err error) deadletter.DeadLetter {
	l := deadletter.DeadLetter{Damaged: err, DamagedAt: host, Forget: it.Expires}
	if f := strings.Split(it.PK, "#"); len(f) == 3 {
		l.Died, _ = time.Parse(time.DateOnly, f[1]) // a bad day selects no dead letter
	}
	if f := strings.Split(it.SK, "#"); len(f) == 4 {
		u, _ := parseUnit(f)
		l.Activity.ID, l.Last.Chunk, l.Last.Position, l.Last.Generation = u.Activity, u.Chunk, u.Position, u.Generation
	}
	return l
}

func parseDeadLetterCursor(s string) (deadLetterPartition, string, error) {
	if s == "" {
		return deadLetterPartition{}, "", nil
	}
	f := strings.SplitN(s, ".", 3)
	if len(f) != 3 {
		return deadLetterPartition{}, "", fmt.Errorf("%w: %q", deadletter.ErrBadCursor, s)
	}
	_, errDay := time.Parse(time.DateOnly, f[0])
	n, err := strconv.Atoi(f[1])
	if err != nil || errDay != nil || n < 0 || n >= deadLetterShards || len(f[2]) > longName {
		return deadLetterPartition{}, "", fmt.Errorf("%w: %q", deadletter.ErrBadCursor, s)
	}
	return deadLetterPartition{f[0], n}, f[2], nil
}
