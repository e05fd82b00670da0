package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

var _ ledger.Index = (*Store)(nil)

// listedItem is ledger.Listed as it is stored.
type listedItem struct {
	ActivityID string `json:"id,omitempty"`
	Sender     string `json:"sender,omitempty"`
	Actor      string `json:"actor,omitempty"`
	Type       string `json:"type,omitempty"`
	KeyID      string `json:"keyId,omitempty"`
	CreatedAt  int64  `json:"createdAt"`
}

// listShards is over how many partitions the list of a day is spread. All activities of
// a sender are in one.
const listShards = 4

func ownIDPK(activityID string) string { return "I#" + digest(activityID, 16) }

func listPK(day string, shard int) string { return fmt.Sprintf("F#%s#%d", day, shard) }

// senderPrefix starts the sort keys of one sender in the list of a day.
func senderPrefix(sender string) string { return digest(sender, 8) + "#" }

// backwards is larger for earlier times, so that the last activity sorts first.
func backwards(t time.Time) string { return fmt.Sprintf("%013d", 9_999_999_999_999-t.UnixMilli()) }

// ListActivities implements ledger.Index.
func (s *Store) ListActivities(ctx context.Context, ls []ledger.Listed) error {
	items := make(map[table.Key]table.Item, 2*len(ls))
	for _, l := range ls {
		i := listedItem{
			ActivityID: l.ActivityID, Sender: l.Sender, Actor: l.Actor, Type: l.Type, KeyID: l.KeyID, CreatedAt: millis(l.CreatedAt),
		}
		if i.Actor == i.Sender {
			i.Actor = ""
		}
		data, err := activityPacking.pack(i)
		if err != nil {
			return err
		}
		keys := []table.Key{{
			PK: listPK(l.CreatedAt.UTC().Format(time.DateOnly), shard(l.Sender, listShards)),
			SK: senderPrefix(l.Sender) + backwards(l.CreatedAt) + "#" + string(l.ID),
		}}
		if l.ActivityID != "" {
			keys = append(keys, table.Key{PK: ownIDPK(l.ActivityID), SK: string(l.ID)})
		}
		for _, k := range keys {
			items[k] = table.Item{Key: k, Data: data, Expires: l.Forget}
		}
	}
	if err := s.t.PutAll(ctx, values(items)); err != nil {
		return fmt.Errorf("list activities: %w", err)
	}
	return nil
}

// Bounds of one call of FindActivities.
const (
	listReads      = 1000 // entries
	listPartitions = 64
)

// FindActivities implements ledger.Index.
func (s *Store) FindActivities(ctx context.Context, f ledger.Sought, cursor string, limit int) ([]ledger.Listed, string, error) {
	limit = max(1, limit)
	if f.ActivityID == "" && f.Since.IsZero() {
		f.Since = s.now().Add(-ledger.SoughtBack)
	}
	places := s.lists(f)
	at, after, err := parseListCursor(places, cursor)
	if err != nil {
		return nil, "", err
	}
	var ls []ledger.Listed
	read := 0
	for n := at; n < len(places); n, after = n+1, "" {
		if n-at == listPartitions {
			return ls, listCursor(places[n], ""), nil
		}
		for more := true; more; {
			if len(ls) >= limit || read >= listReads {
				return ls, listCursor(places[n], after), nil
			}
			r := places[n]
			if r.Limit = min(limit-len(ls), listReads-read); after != "" {
				r.From = after + "\x00"
			}
			var items []table.Item
			if items, more, err = s.t.Query(ctx, r); err != nil {
				return nil, "", fmt.Errorf("find activities: %w", err)
			}
			read += len(items)
			for _, it := range items {
				l, ok, err := s.listed(f, it)
				if err != nil {
					return nil, "", err
				}
				if after = it.SK; ok {
					ls = append(ls, l)
				}
			}
		}
	}
	return ls, "", nil
}

// lists are the ranges of items that can have what f looks for, in order.
func (s *Store) lists(f ledger.Sought) (all []table.Range) {
	if f.ActivityID != "" {
		return []table.Range{{PK: ownIDPK(f.ActivityID)}}
	}
	prefix, shards := "", make([]int, listShards)
	for n := range shards {
		shards[n] = n
	}
	if f.Sender != "" {
		prefix, shards = senderPrefix(f.Sender), []int{shard(f.Sender, listShards)}
	}
	now := s.now().UTC()
	since := f.Since.UTC()
	if oldest := now.Add(-ledger.LongestBack); since.Before(oldest) {
		since = oldest
	}
	// Activities of a clock that is ahead are of tomorrow.
	for day := now.Add(time.Hour).Truncate(24 * time.Hour); !day.Before(since.Truncate(24 * time.Hour)); day = day.Add(-24 * time.Hour) {
		for _, n := range shards {
			all = append(all, table.Prefix(listPK(day.Format(time.DateOnly), n), prefix))
		}
	}
	return all
}

// listed reads an item, and reports whether it is what f looks for.
func (s *Store) listed(f ledger.Sought, it table.Item) (ledger.Listed, bool, error) {
	if s.expired(it) {
		return ledger.Listed{}, false, nil
	}
	var i listedItem
	if err := activityPacking.unpack(it, &i); err != nil {
		return ledger.Listed{}, false, err
	}
	l := ledger.Listed{
		ID: activity.ID(it.SK[strings.LastIndexByte(it.SK, '#')+1:]), ActivityID: i.ActivityID, Sender: i.Sender, Actor: i.Actor,
		Type: i.Type, KeyID: i.KeyID, CreatedAt: fromMillis(i.CreatedAt), Forget: it.Expires,
	}
	if l.Actor == "" {
		l.Actor = l.Sender
	}
	ok := (f.ActivityID == "" || f.ActivityID == l.ActivityID) && (f.Sender == "" || f.Sender == l.Sender) && !l.CreatedAt.Before(f.Since)
	return l, ok, nil
}

// A cursor is the list, and the sort key in it, to go on after.
func listCursor(r table.Range, after string) string { return r.PK[len("F#"):] + "/" + after }

func parseListCursor(places []table.Range, cursor string) (n int, after string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	list, after, ok := strings.Cut(cursor, "/")
	n = slices.IndexFunc(places, func(r table.Range) bool { return r.PK[len("F#"):] == list })
	if !ok || n < 0 {
		return 0, "", fmt.Errorf("%w: %q", ledger.ErrBadCursor, cursor)
	}
	return n, after, nil
}
