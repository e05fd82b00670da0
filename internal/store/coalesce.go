package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/engine/table"
)

var _ coalesce.Store = (*Store)(nil)

func subjectPK(s coalesce.Subject) string {
	return "R#" + digest(strings.Join([]string{string(s.Group), s.Object, s.Target}, "\x00"), 16)
}

// inboxDigest stands for an inbox. It is short, because there is one for every
// recipient, and long enough that two of a million inboxes do not share one by
// chance: a shared digest would suppress a delivery.
type inboxDigest [8]byte

func digestInbox(inbox string) inboxDigest {
	sum := sha256.Sum256([]byte(inbox))
	return inboxDigest(sum[:8])
}

// acceptedPart is how many inboxes an item lists.
const acceptedPart = 10_000

func acceptedSK(at time.Time, rest string) string {
	return fmt.Sprintf("A#%015d%s", at.UnixMilli(), rest)
}

// PutAccepted implements coalesce.Store. An item is the activity as a line of
// JSON and then the digests of the inboxes, sorted.
func (s *Store) PutAccepted(ctx context.Context, subject coalesce.Subject, a coalesce.Accepted, inboxes []string, forget time.Time) error {
	head, err := encode(a)
	if err != nil {
		return err
	}
	digests := make([]inboxDigest, len(inboxes))
	for i, inbox := range inboxes {
		digests[i] = digestInbox(inbox)
	}
	slices.SortFunc(digests, func(a, b inboxDigest) int { return bytes.Compare(a[:], b[:]) })
	var items []table.Item
	for part := range slices.Chunk(digests, acceptedPart) {
		data := append(slices.Clone(head), '\n')
		for _, d := range part {
			data = append(data, d[:]...)
		}
		items = append(items, table.Item{
			Key:  table.Key{PK: subjectPK(subject), SK: acceptedSK(a.At, fmt.Sprintf("#%s#%03d", a.ID, len(items)))},
			Data: data, Expires: forget,
		})
	}
	return s.t.PutAll(ctx, items)
}

func (s *Store) NewerAccepted(ctx context.Context, subject coalesce.Subject, after time.Time, inboxes []string) (map[string][]coalesce.Accepted, error) {
	list, _, err := s.page(ctx, table.Range{
		PK: subjectPK(subject), From: acceptedSK(after.Add(time.Millisecond), ""), To: "A$",
	})
	if err != nil {
		return nil, fmt.Errorf("read what is accepted about %q: %w", subject.Object, err)
	}
	newer := make(map[string][]coalesce.Accepted)
	for _, it := range list {
		head, digests, ok := bytes.Cut(it.Data, []byte("\n"))
		if !ok || len(digests)%len(inboxDigest{}) != 0 {
			return nil, fmt.Errorf("decode record %s %s: %d bytes are no list of inboxes", it.PK, it.SK, len(it.Data))
		}
		var a coalesce.Accepted
		if err := json.Unmarshal(head, &a); err != nil {
			return nil, fmt.Errorf("decode record %s %s: %w", it.PK, it.SK, err)
		}
		for _, inbox := range inboxes {
			if has(digests, digestInbox(inbox)) {
				newer[inbox] = append(newer[inbox], a)
			}
		}
	}
	return newer, nil
}

func (s *Store) Cancelled(ctx context.Context, ids []activity.ID) (map[activity.ID]bool, error) {
	items, err := s.t.Get(ctx, keysOf(ids, recordKey)...)
	if err != nil {
		return nil, fmt.Errorf("read whether activities were cancelled: %w", err)
	}
	cancelled := map[activity.ID]bool{}
	for _, id := range ids {
		it, _ := s.live(items, recordKey(id))
		if it == nil {
			continue // perhaps accepted while it could not be recorded
		}
		r, _, err := unpackRecord(id, *it)
		if err != nil {
			return nil, err
		}
		cancelled[id] = r.Cancelled || r.Forgotten || r.Lost != ""
	}
	return cancelled, nil
}

// has looks for d in a sorted list of digests.
func has(digests []byte, d inboxDigest) bool {
	const size = len(d)
	_, found := sort.Find(len(digests)/size, func(i int) int { return bytes.Compare(d[:], digests[i*size:(i+1)*size]) })
	return found
}

// deliveredKey spreads the inboxes of a subject over partitions: a partition
// takes 1,000 writes a second, and an activity may be delivered faster.
func deliveredKey(subject coalesce.Subject, inbox string) table.Key {
	name := digest(inbox, 16)
	return table.Key{PK: subjectPK(subject) + "#" + name[:1], SK: "D#" + name}
}

func (s *Store) PutDelivered(ctx context.Context, subject coalesce.Subject, d coalesce.Delivered, inboxes []string, forget time.Time) error {
	it, err := jsonItem(table.Key{}, d, forget)
	if err != nil {
		return err
	}
	var items []table.Item
	for _, it.Key = range keysOf(inboxes, func(inbox string) table.Key { return deliveredKey(subject, inbox) }) {
		items = append(items, it)
	}
	return s.t.PutAll(ctx, items)
}

func (s *Store) LastDelivered(ctx context.Context, subject coalesce.Subject, inboxes []string) (map[string]coalesce.Delivered, error) {
	keys := keysOf(inboxes, func(inbox string) table.Key { return deliveredKey(subject, inbox) })
	items, err := s.t.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read what was delivered about %q: %w", subject.Object, err)
	}
	last := make(map[string]coalesce.Delivered, len(items))
	for _, inbox := range inboxes {
		it, _ := s.live(items, deliveredKey(subject, inbox))
		if it == nil {
			continue
		}
		var d coalesce.Delivered
		if err := decode(*it, &d); err != nil {
			return nil, err
		}
		last[inbox] = d
	}
	return last, nil
}
