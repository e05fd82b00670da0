package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/protocol/sipher/follow"
)

// followShards spreads follows over sixteen partitions, by the first digit of their
// digest, so that a server that announces many at once does not meet the write limit
// of one partition.
const (
	sipherFollowsPK = "SIPHER#FOLLOWS#"
	followShards    = "0123456789abcdef"
)

func sipherFollowKey(k follow.Key) (table.Key, error) {
	name, err := json.Marshal([]string{k.FollowerID, k.FollowingID, k.ServerURL})
	if err != nil {
		return table.Key{}, fmt.Errorf("name follow: %w", err)
	}
	d := digest(string(name), 32)
	return table.Key{PK: sipherFollowsPK + d[:1], SK: d}, nil
}

func (x Sipher) changeFollow(ctx context.Context, k follow.Key, f func(*follow.Follow) (*follow.Follow, error)) error {
	tk, err := sipherFollowKey(k)
	if err != nil {
		return err
	}
	return rewrite(ctx, x, tk, nil, f)
}

func (x Sipher) RecordFollow(ctx context.Context, fresh follow.Follow) error {
	return x.changeFollow(ctx, fresh.Key(), func(old *follow.Follow) (*follow.Follow, error) {
		if old != nil && (old.ID == fresh.ID || old.RecordedAt.After(fresh.RecordedAt)) {
			return nil, nil
		}
		return &fresh, nil
	})
}

func (x Sipher) AcceptFollow(ctx context.Context, k follow.Key, at time.Time) (bool, error) {
	return x.setFollow(ctx, k, at, func(f *follow.Follow) *bool { return &f.Accepted })
}

func (x Sipher) AcknowledgeFollow(ctx context.Context, k follow.Key, at time.Time) (bool, error) {
	return x.setFollow(ctx, k, at, func(f *follow.Follow) *bool { return &f.Acknowledged })
}

func (x Sipher) setFollow(ctx context.Context, k follow.Key, at time.Time, field func(*follow.Follow) *bool) (there bool, err error) {
	err = x.changeFollow(ctx, k, func(old *follow.Follow) (*follow.Follow, error) {
		there = old != nil
		if !there || *field(old) {
			return nil, nil
		}
		*field(old), old.UpdatedAt = true, at
		return old, nil
	})
	return there, err
}

// Follow returns the record of a follow; found is false if there is none.
func (x Sipher) Follow(ctx context.Context, k follow.Key) (f follow.Follow, found bool, err error) {
	tk, err := sipherFollowKey(k)
	if err != nil {
		return f, false, err
	}
	it, _, err := x.s.find(ctx, tk, &f)
	if err != nil {
		return f, false, fmt.Errorf("read follow: %w", err)
	}
	return f, it != nil, nil
}

func (x Sipher) Follows(ctx context.Context, cursor string, limit int) (fs []follow.Follow, next string, err error) {
	limit = max(limit, 1)
	shard := 0
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor[:1], "%x", &shard); err != nil {
			return nil, "", follow.ErrCursor
		}
	}
	for ; shard < len(followShards); shard, cursor = shard+1, "" {
		r := table.Range{PK: sipherFollowsPK + followShards[shard:shard+1], From: after(cursor), Limit: limit - len(fs)}
		items, more, err := x.s.t.Query(ctx, r)
		if err != nil {
			return nil, "", fmt.Errorf("list follows: %w", err)
		}
		some, err := unpacked(items, decoded[follow.Follow])
		if err != nil {
			return nil, "", err
		}
		fs = append(fs, some...)
		if len(fs) >= limit && (more || shard < len(followShards)-1) {
			return fs, items[len(items)-1].SK, nil
		}
	}
	return fs, "", nil
}
