package store

import (
	"context"
	"fmt"

	"fedpost/internal/engine/table"
	"fedpost/internal/protocol/sipher/peers"
)

const sipherBlocksPK = "SIPHER#BLOCKS"

func sipherBlockKey(url string) table.Key { return table.Key{PK: sipherBlocksPK, SK: keyName(url)} }

// Blocked implements peers.BlockList.
func (x Sipher) Blocked(ctx context.Context, serverURL string) (*peers.Block, error) {
	k := sipherBlockKey(serverURL)
	items, err := x.s.t.Get(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("read sipher block: %w", err)
	}
	it, ok := items[k]
	if !ok {
		return nil, nil
	}
	b := new(peers.Block)
	return b, decode(it, b)
}

// Blocks implements peers.BlockList.
func (x Sipher) Blocks(ctx context.Context) ([]peers.Block, error) {
	return listed[peers.Block](ctx, x, sipherBlocksPK)
}

// Block implements peers.BlockList.
func (x Sipher) Block(ctx context.Context, b peers.Block) error {
	data, err := encode(b)
	if err != nil {
		return err
	}
	it := table.Item{Key: sipherBlockKey(b.ServerURL), Data: data, Fence: newFence()}
	if err := x.s.t.Put(ctx, it, table.Cond{}); err != nil {
		return fmt.Errorf("block sipher server: %w", err)
	}
	return nil
}

// Unblock implements peers.BlockList.
func (x Sipher) Unblock(ctx context.Context, serverURL string) error {
	if err := x.s.t.Delete(ctx, sipherBlockKey(serverURL), table.Cond{}); err != nil {
		return fmt.Errorf("unblock sipher server: %w", err)
	}
	return nil
}
