package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fedpost/internal/engine/table"
	"fedpost/internal/servers/ratelimit"
)

var _ ratelimit.Store = (*Store)(nil)

const limitPrefix = "L#"

// limitKey is apart from the host's state: a limit changes with every batch.
func limitKey(host string) table.Key { return table.Key{PK: limitPrefix + host, SK: "RATE"} }

func (s *Store) Limits(ctx context.Context, hosts ...string) (map[string]ratelimit.Limit, error) {
	items, err := s.t.Get(ctx, keysOf(hosts, limitKey)...)
	if err != nil {
		return nil, fmt.Errorf("read rate limits: %w", err)
	}
	limits := make(map[string]ratelimit.Limit, len(items))
	for _, it := range slices.DeleteFunc(slices.Collect(maps.Values(items)), s.expired) {
		l := ratelimit.Limit{Host: strings.TrimPrefix(it.PK, limitPrefix), Version: it.Fence, Forget: it.Expires}
		if err := decode(it, &l); err != nil {
			return nil, err
		}
		limits[l.Host] = l
	}
	return limits, nil
}

func (s *Store) SaveLimit(ctx context.Context, l ratelimit.Limit) (ratelimit.Limit, error) {
	it, err := jsonItem(limitKey(l.Host), l, l.Forget)
	if err != nil {
		return l, err
	}
	if err := s.swap(ctx, &it, s.ofVersion(l.Version)); err != nil {
		return l, fmt.Errorf("save rate limit of %s: %w", l.Host, onConflict(err, ratelimit.ErrChanged))
	}
	l.Version = it.Fence
	return l, nil
}
