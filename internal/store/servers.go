package store

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
)

var _ circuit.Store = (*Store)(nil)

// serverItem is circuit.State as it is stored. It has the server's name, because the
// table's key may have only a digest of the name.
type serverItem struct {
	Name string `json:"name"`
	circuit.State
}

// serverLots is over how many partitions the states are spread. There are enough
// that none runs hot when thousands of workers read the states of their hosts, and
// few enough to list all. Another number would lose every stored state.
const serverLots = 64

func serverPK(lot int) string { return fmt.Sprintf("S#%02d", lot) }

func serverKey(name string) table.Key {
	return table.Key{PK: serverPK(shard(name, serverLots)), SK: keyName(name)}
}

func serverShard(shard int) string { return fmt.Sprintf("server#%d", shard) }

// shardOf returns the shard of the schedule in which st is. Earlier versions spread servers over
// all shards, whatever their step; such a server may be in the wrong half until it is saved again.
func shardOf(st circuit.State) string {
	n := shard(st.Key, circuit.Shards/2)
	if st.Probed() {
		n += circuit.Shards / 2
	}
	return serverShard(n)
}

// shard spreads names over n shards.
func shard(name string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails
	return int(h.Sum32() % uint32(n))
}

func unpackServer(it table.Item) (circuit.State, error) {
	var i serverItem
	if err := decode(it, &i); err != nil {
		return circuit.State{}, err
	}
	st := i.State
	st.Key, st.Version, st.Forget = i.Name, it.Fence, it.Expires
	if it.Due.Shard != "" {
		st.CheckAt = it.Due.At
	}
	return st, nil
}

// unpackServers returns the states of those items that have not expired.
func (s *Store) unpackServers(items []table.Item) ([]circuit.State, error) {
	return unpacked(slices.DeleteFunc(items, s.expired), unpackServer)
}

func (s *Store) Servers(ctx context.Context, keys ...string) (map[string]circuit.State, error) {
	items, err := s.t.Get(ctx, keysOf(keys, serverKey)...)
	if err != nil {
		return nil, fmt.Errorf("read server states: %w", err)
	}
	all, err := s.unpackServers(slices.Collect(maps.Values(items)))
	states := make(map[string]circuit.State, len(all))
	for _, st := range all {
		states[st.Key] = st
	}
	return states, err
}

// ListServers implements circuit.Store. The cursor is the number of the partition, then the sort
// key of the last state listed.
func (s *Store) ListServers(ctx context.Context, cursor string, limit int) (states []circuit.State, next string, err error) {
	limit = max(limit, 1)
	number, from, _ := strings.Cut(cmp.Or(cursor, "0 "), " ")
	lot, err := strconv.Atoi(number)
	if err != nil || lot < 0 || lot >= serverLots {
		return nil, "", circuit.ErrCursor
	}
	for ; lot < serverLots; lot, from = lot+1, "" {
		items, last, err := s.page(ctx, table.Range{PK: serverPK(lot), From: after(from), Limit: limit - len(states)})
		if err != nil {
			return nil, "", fmt.Errorf("list servers: %w", err)
		}
		some, err := s.unpackServers(items)
		if err != nil {
			return nil, "", err
		}
		states = append(states, some...)
		switch {
		case last != "":
			// The partition has more: some items were expired, or the page is full.
			return states, fmt.Sprintf("%d %s", lot, last), nil
		case len(states) >= limit && lot+1 < serverLots:
			return states, fmt.Sprintf("%d ", lot+1), nil
		}
	}
	return states, "", nil
}

func (s *Store) SaveServer(ctx context.Context, st circuit.State) (circuit.State, error) {
	transition, st, changed := st.Transition()
	it, err := jsonItem(serverKey(st.Key), serverItem{Name: st.Key, State: st}, st.Forget)
	if err != nil {
		return st, err
	}
	if !st.CheckAt.IsZero() {
		it.Due = table.Due{Shard: shardOf(st), At: st.CheckAt}
	}
	cond := s.ofVersion(st.Version)
	if changed {
		err = s.swapServer(ctx, &it, cond, st.Key, transition)
	} else {
		err = s.swap(ctx, &it, cond)
	}
	if err != nil {
		return st, fmt.Errorf("save state of %s: %w", st.Key, onConflict(err, circuit.ErrChanged))
	}
	st.Version = it.Fence
	return st, nil
}

func (s *Store) DropServer(ctx context.Context, st circuit.State) error {
	err := s.t.Delete(ctx, serverKey(st.Key), table.Fenced(st.Version))
	return wrapped(onConflict(err, circuit.ErrChanged), "drop the state of %s", st.Key)
}

// DueServers implements circuit.Store. The index may lag. States carry their version,
// so saving a change of a stale state fails. Expired states are due, too: after a day without
// runs, thousands of them would use up the limit, and a step takes each out of the index.
func (s *Store) DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]circuit.State, error) {
	items, err := s.t.Due(ctx, serverShard(shard), now, limit)
	if err != nil {
		return nil, fmt.Errorf("find due servers: %w", err)
	}
	return unpacked(items, unpackServer)
}
