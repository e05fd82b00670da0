package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
)

var _ keys.Store = (*Store)(nil)

// A signing key is two items in different partitions, because IAM can limit a role by
// partition key but not by attribute. So a role that reads the public half need not
// be able to read the sealed half.
const (
	publicPrefix = "K#"
	// keyList is the partition of the list of keys: their public halves once more, because
	// a table cannot list partitions.
	keyList      = "KI#"
	sealedPrefix = "KS#" // template.yaml names it
)

func listedKey(id string) table.Key { return table.Key{PK: keyList, SK: keyName(id)} }

func publicKey(id string) table.Key { return table.Key{PK: publicPrefix + id, SK: "KEY"} }
func sealedKey(id string) table.Key { return table.Key{PK: sealedPrefix + id, SK: "KEY"} }

// shownKey is a key's public item. In version 1 of this layout it was the only item,
// with the sealed half in Private.
type shownKey struct {
	// ID is set in the list, whose sort key may have a digest.
	ID        string    `json:"id,omitempty"`
	Type      keys.Type `json:"type"`
	PublicPEM string    `json:"public"`
	Private   []byte    `json:"sealed,omitempty"`
	CreatedAt time.Time `json:"created"`
}

// PutKey implements keys.Store. If the answer to a write was lost, the SDK repeats the write, which
// then finds the key taken. The first write has succeeded if the public item is the same, as each
// new key has another public half.
func (s *Store) PutKey(ctx context.Context, k keys.Sealed, replace bool) error {
	half := shownKey{Type: k.Type, PublicPEM: k.PublicPEM, CreatedAt: k.CreatedAt}
	shown, err1 := jsonItem(publicKey(k.ID), half, time.Time{})
	half.ID = k.ID
	listed, err2 := jsonItem(listedKey(k.ID), half, time.Time{})
	sealed, err3 := jsonItem(sealedKey(k.ID), k, time.Time{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	cond := table.Cond{Absent: true}
	if replace {
		cond = table.Cond{}
	}
	// The condition is on the public item, because a failed condition returns the
	// stored item, and the API's role may not read the sealed one.
	ops := []table.Op{
		{Put: &shown, Cond: cond},
		{Put: &sealed},
	}
	if k.ID != "" { // the proof of the sealing key is no key
		ops = append(ops, table.Op{Put: &listed})
	}
	err := s.t.Transact(ctx, ops)
	if replace || !errors.Is(err, table.ErrConflict) {
		return err
	}
	stored, getErr := s.t.Get(ctx, shown.Key)
	if getErr != nil {
		return getErr
	}
	if bytes.Equal(stored[shown.Key].Data, shown.Data) {
		return nil
	}
	return keys.ErrExists
}

// Key implements keys.Store. It reads the public item only where there is no
// sealed one: a key of version 1 of the layout, which is split when it is next
// put.
func (s *Store) Key(ctx context.Context, id string) (keys.Sealed, error) {
	k := keys.Sealed{ID: id}
	for range 2 {
		err := s.readKey(ctx, sealedKey(id), &k)
		if !errors.Is(err, keys.ErrNotFound) {
			return k, err
		}
		if err = s.readKey(ctx, publicKey(id), &k); err != nil || len(k.Private) > 0 {
			return k, err
		}
		// The key was put between the two reads.
	}
	return keys.Sealed{}, keys.ErrNotFound
}

func (s *Store) PublicKey(ctx context.Context, id string) (keys.Public, error) {
	var k shownKey
	err := s.readKey(ctx, publicKey(id), &k)
	return keys.Public{ID: id, Type: k.Type, PublicPEM: k.PublicPEM}, err
}

func (s *Store) readKey(ctx context.Context, key table.Key, v any) error {
	it, _, err := s.find(ctx, key, v)
	if err == nil && it == nil {
		return keys.ErrNotFound
	}
	return wrapped(err, "read key")
}

func (s *Store) DeleteKey(ctx context.Context, id string) error {
	var ops []table.Op
	for _, k := range []table.Key{publicKey(id), sealedKey(id), listedKey(id)} {
		ops = append(ops, table.Op{Delete: &k})
	}
	return s.t.Transact(ctx, ops)
}

func (s *Store) ListKeys(ctx context.Context, cursor string, limit int) ([]keys.Public, string, error) {
	from, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %q", keys.ErrBadCursor, cursor)
	}
	items, last, err := s.page(ctx, table.Range{PK: keyList, From: after(string(from)), Limit: max(1, limit)})
	if err != nil {
		return nil, "", err
	}
	ks, err := unpacked(items, func(it table.Item) (keys.Public, error) {
		var k shownKey
		err := decode(it, &k)
		return keys.Public{ID: k.ID, Type: k.Type, PublicPEM: k.PublicPEM}, err
	})
	return ks, base64.RawURLEncoding.EncodeToString([]byte(last)), err
}
