package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
)

// Each dead letter has a second item, of one write unit, in the index of its host, with the name
// and type of the dead letter. So the dead letters of a host are found without reading others,
// and those to revive when the host is back without reading the rest. The item is written first
// and removed with the dead letter. If a crash leaves an item without a dead letter, it is ignored
// until it expires.

// The parts of a host's index, in which dead letters are sorted by day. revivesInOrder
// and revives died because the host was down.
const (
	revivesInOrder = "O"
	revives        = "U"
	staysDead      = "X"
)

var hostIndexParts = []string{revivesInOrder, revives, staysDead}

func hostIndexPart(l deadletter.DeadLetter) string {
	switch {
	case l.Delivery.Revive.IsZero():
		return staysDead
	case l.Activity.Ordered():
		return revivesInOrder
	}
	return revives
}

func hostIndexPK(host string, shard int) string { return fmt.Sprintf("DH#%s#%d", keyName(host), shard) }

func hostIndexKey(l deadletter.DeadLetter) table.Key { return hostIndexKeyIn(hostIndexPart(l), l) }

func hostIndexKeyIn(part string, l deadletter.DeadLetter) table.Key {
	n := l.Name()
	return table.Key{
		PK: hostIndexPK(l.Host(), shard(string(n.Activity), deadLetterShards)),
		SK: part + "#" + n.Day + "#" + unitKey(n.Unit),
	}
}

// indexed reads a sort key of the index.
func indexed(sk string) (deadletter.Name, error) {
	f := strings.Split(sk, "#")
	if len(f) != 6 {
		return deadletter.Name{}, fmt.Errorf("%q is not a key of the index of dead letters", sk)
	}
	u, err := parseUnit(f[2:])
	return deadletter.Name{Day: f[1], Unit: u}, err
}

// longestIndexedType is how much of an activity's type the index has, in bytes.
const longestIndexedType = 200

// indexedType is an activity's type as the index has it. A type is never empty there,
// because an item has data.
func indexedType(typ string) []byte {
	return []byte("=" + typ[:min(len(typ), longestIndexedType)])
}

func (s *Store) indexDeadLetters(ctx context.Context, ls []deadletter.DeadLetter) error {
	items := map[table.Key]table.Item{}
	for _, l := range ls {
		key := hostIndexKey(l)
		items[key] = table.Item{Key: key, Data: indexedType(l.Activity.Type), Expires: l.Forget}
	}
	return s.t.PutAll(ctx, slices.Collect(maps.Values(items)))
}

// hostIndexAt is a place in the index of a host: the last sort key that was read of a part
// in a shard, or "" if none was.
type hostIndexAt struct {
	shard int
	part  string
	after string
}

const hostIndexCursor = "host."

func (a hostIndexAt) String() string {
	return fmt.Sprintf("%s%d.%s.%s", hostIndexCursor, a.shard, a.part, a.after)
}

func parseHostIndexCursor(s string, parts []string) (hostIndexAt, error) {
	if s == "" {
		return hostIndexAt{part: parts[0]}, nil
	}
	rest, ok := strings.CutPrefix(s, hostIndexCursor)
	f := strings.SplitN(rest, ".", 3)
	if !ok || len(f) != 3 || !slices.Contains(parts, f[1]) || f[2] != "" && !strings.HasPrefix(f[2], f[1]+"#") || len(f[2]) > longName {
		return hostIndexAt{}, fmt.Errorf("%w: %q", deadletter.ErrBadCursor, s)
	}
	n, err := strconv.Atoi(f[0])
	if err != nil || n < 0 || n >= deadLetterShards {
		return hostIndexAt{}, fmt.Errorf("%w: %q", deadletter.ErrBadCursor, s)
	}
	return hostIndexAt{n, f[1], f[2]}, nil
}

func (s *Store) Revivable(ctx context.Context, host string, ordered bool, since time.Time, cursor string, limit int) ([]deadletter.DeadLetter, string, error) {
	part := revives
	if ordered {
		part = revivesInOrder
	}
	return s.walkHostIndex(ctx, deadletter.Filter{Host: host, Since: since}, []string{part}, cursor, limit)
}

// LeaveDead implements deadletter.Store. A damaged dead letter stays as it is; only its item of the
// index moves to another part.
func (s *Store) LeaveDead(ctx context.Context, ls []deadletter.DeadLetter) error {
	var whole []deadletter.DeadLetter
	moved, old := map[table.Key]table.Item{}, map[table.Key]bool{}
	for _, l := range ls {
		for _, part := range []string{revives, revivesInOrder} {
			if l.Damaged != nil || part == hostIndexPart(l) {
				old[hostIndexKeyIn(part, l)] = true
			}
		}
		if l.Damaged != nil {
			key := hostIndexKeyIn(staysDead, l)
			moved[key] = table.Item{Key: key, Data: indexedType(l.Activity.Type), Expires: l.Forget}
			continue
		}
		l.Delivery.Revive = time.Time{}
		whole = append(whole, l)
	}
	err := s.t.PutAll(ctx, slices.Collect(maps.Values(moved)))
	if len(whole) > 0 {
		err = errors.Join(err, s.AddDeadLetters(ctx, whole))
	}
	if err == nil {
		err = s.t.DeleteAll(ctx, slices.Collect(maps.Keys(old)))
	}
	return wrapped(err, "leave dead what is not revived")
}

// walkHostIndex goes through some parts of a host's index from a cursor on, until it has
// limit dead letters or has read deadLetterReads items.
func (s *Store) walkHostIndex(ctx context.Context, f deadletter.Filter, parts []string, cursor string, limit int) ([]deadletter.DeadLetter, string, error) {
	at, err := parseHostIndexCursor(cursor, parts)
	if err != nil {
		return nil, "", err
	}
	var ls []deadletter.DeadLetter
	read, day := 0, f.Since.UTC().Format(time.DateOnly)
	for ; at.shard < deadLetterShards; at.shard++ {
		for i := slices.Index(parts, at.part); i < len(parts); i++ {
			at.part = parts[i]
			r := table.Prefix(hostIndexPK(f.Host, at.shard), at.part+"#")
			r.From = max(r.From, at.part+"#"+day)
			r.From = max(r.From, after(at.after))
			for more := true; more; {
				if len(ls) >= limit || read >= deadLetterReads {
					return ls, at.String(), nil
				}
				r.Limit = min(limit-len(ls), deadLetterReads-read)
				var list []table.Item
				if list, more, err = s.t.Query(ctx, r); err != nil {
					return nil, "", fmt.Errorf("list dead letters of %s: %w", f.Host, err)
				}
				some, err := s.indexedDeadLetters(ctx, f, list)
				if err != nil {
					return nil, "", err
				}
				ls = append(ls, some...)
				if read += len(list); len(list) > 0 {
					at.after = list[len(list)-1].SK
					r.From = at.after + "\x00"
				}
			}
			at.after = ""
		}
		at.part = parts[0]
	}
	return ls, "", nil
}

// indexedDeadLetters reads the dead letters that items of an index name, except those of another
// type than f's.
func (s *Store) indexedDeadLetters(ctx context.Context, f deadletter.Filter, list []table.Item) ([]deadletter.DeadLetter, error) {
	var keys []table.Key
	for _, it := range list {
		if s.expired(it) || f.Type != "" && string(it.Data) != string(indexedType(f.Type)) {
			continue
		}
		n, err := indexed(it.SK)
		if err != nil {
			return nil, err
		}
		keys = append(keys, deadLetterKey(n))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := s.t.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	items := make([]table.Item, 0, len(keys))
	for _, k := range keys {
		if it, ok := found[k]; ok {
			items = append(items, it)
		}
	}
	ls, err := s.deadLetters(ctx, f, items, f.Host)
	// A dead letter that was written twice may be in two parts, and belongs to one.
	here := make(map[table.Key]bool, len(list))
	for _, it := range list {
		here[it.Key] = true
	}
	return slices.DeleteFunc(ls, func(l deadletter.DeadLetter) bool { return l.Damaged == nil && !here[hostIndexKey(l)] }), err
}
