package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"fedpost/internal/health"
	"fedpost/internal/table"
)

var _ health.Store = (*Store)(nil)

// serverItem is health.State as it is stored: with its name, which the key may
// have only a digest of.
type serverItem struct {
	Name string `json:"name"`
	health.State
}

func serverKey(name string) table.Key { return table.Key{PK: "S#" + keyName(name), SK: "STATE"} }

func serverShard(shard int) string { return fmt.Sprintf("server#%d", shard) }

// shard spreads names over n shards.
func shard(name string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails
	return int(h.Sum32() % uint32(n))
}

func unpackServer(it table.Item) (health.State, error) {
	var i serverItem
	if err := decode(it, &i); err != nil {
		return health.State{}, err
	}
	st := i.State
	st.Key, st.Version, st.Forget = i.Name, it.Fence, it.Expires
	if it.Due.Shard != "" {
		st.CheckAt = it.Due.At
	}
	return st, nil
}

// Servers implements health.Store.
func (s *Store) Servers(ctx context.Context, keys ...string) (map[string]health.State, error) {
	wanted := make(map[table.Key]bool, len(keys))
	for _, k := range keys {
		wanted[serverKey(k)] = true
	}
	items, err := s.t.Get(ctx, distinct(wanted)...)
	if err != nil {
		return nil, fmt.Errorf("read server states: %w", err)
	}
	states := make(map[string]health.State, len(items))
	for _, it := range items {
		if s.expired(it) {
			continue
		}
		st, err := unpackServer(it)
		if err != nil {
			return nil, err
		}
		states[st.Key] = st
	}
	return states, nil
}

// SaveServer implements health.Store.
func (s *Store) SaveServer(ctx context.Context, st health.State) (health.State, error) {
	data, err := encode(serverItem{Name: st.Key, State: st})
	if err != nil {
		return st, err
	}
	it := table.Item{Key: serverKey(st.Key), Data: data, Expires: st.Forget}
	if !st.CheckAt.IsZero() {
		it.Due = table.Due{Shard: serverShard(shard(st.Key, health.Shards)), At: st.CheckAt}
	}
	cond := table.Fenced(st.Version)
	if st.Version == "" {
		cond = table.Free(s.now())
	}
	err = s.swap(ctx, &it, cond)
	switch {
	case errors.Is(err, table.ErrConflict):
		return st, fmt.Errorf("save state of %s: %w", st.Key, health.ErrChanged)
	case err != nil:
		return st, fmt.Errorf("save state of %s: %w", st.Key, err)
	}
	st.Version = it.Fence
	return st, nil
}

// DueServers implements health.Store. The index may lag: what it shows is saved
// with its version, so acting on a stale state fails.
func (s *Store) DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]health.State, error) {
	items, err := s.t.Due(ctx, serverShard(shard), now, limit)
	if err != nil {
		return nil, fmt.Errorf("find due servers: %w", err)
	}
	states := make([]health.State, 0, len(items))
	for _, it := range items {
		if s.expired(it) {
			continue
		}
		st, err := unpackServer(it)
		if err != nil {
			return nil, err
		}
		states = append(states, st)
	}
	return states, nil
}
