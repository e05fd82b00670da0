package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
)

const sipherBlocksPK = "SIPHER#BLOCKS"

func sipherBlockKey(url string) table.Key { return table.Key{PK: sipherBlocksPK, SK: keyName(url)} }

// Blocked implements peers.BlockList. A block of a host, or of a domain with its
// subdomains, holds for every protocol. One request reads all blocks.
func (x Sipher) Blocked(ctx context.Context, serverURL string) (*peers.Block, error) {
	k := sipherBlockKey(serverURL)
	hosts := circuit.Above(activity.HostOf(serverURL))
	keys := []table.Key{k}
	for _, host := range hosts {
		keys = append(keys, serverKey(host))
	}
	items, err := x.s.t.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read sipher block: %w", err)
	}
	if it, ok := items[k]; ok {
		b := new(peers.Block)
		return b, decode(it, b)
	}
	for _, host := range hosts {
		it, ok := items[serverKey(host)]
		if !ok || x.s.expired(it) {
			continue
		}
		st, err := unpackServer(it)
		if err != nil {
			return nil, err
		}
		if st.Phase == circuit.Blocked {
			return &peers.Block{ServerURL: serverURL, Reason: st.Why, CreatedAt: st.Since}, nil
		}
	}
	return nil, nil
}

// BlockOf returns the block of a server by its URL alone; nil if there is none.
func (x Sipher) BlockOf(ctx context.Context, serverURL string) (*peers.Block, error) {
	b := new(peers.Block)
	it, _, err := x.s.find(ctx, sipherBlockKey(serverURL), b)
	if it == nil {
		b = nil
	}
	return b, wrapped(err, "read sipher block")
}

func (x Sipher) Blocks(ctx context.Context) ([]peers.Block, error) {
	return listed[peers.Block](ctx, x, sipherBlocksPK)
}

func (x Sipher) Block(ctx context.Context, b peers.Block) error {
	it, err := jsonItem(sipherBlockKey(b.ServerURL), b, time.Time{})
	if err != nil {
		return err
	}
	it.Fence = newFence()
	return wrapped(x.s.t.Put(ctx, it, table.Cond{}), "block sipher server")
}

func (x Sipher) Unblock(ctx context.Context, serverURL string) error {
	return wrapped(x.s.t.Delete(ctx, sipherBlockKey(serverURL), table.Cond{}), "unblock sipher server")
}
