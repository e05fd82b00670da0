package store

import (
	"context"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
	"fedpost/internal/servers/circuit"
)

func (s *Store) swapServer(ctx context.Context, it *table.Item, cond table.Cond, key string, t circuit.Transition) error {
	host, _ := circuit.HostOf(key)
	switch quiet, err := s.OfWebhook(ctx, host); {
	case err != nil:
		return err
	case quiet:
		return s.swap(ctx, it, cond)
	}
	kind := map[circuit.Phase]events.Kind{
		circuit.Unhealthy: events.ServerUnhealthy, circuit.Exhausted: events.ServerExhausted,
		circuit.Gone: events.ServerGone, circuit.Healthy: events.ServerRecovered,
	}[t.Phase]
	return s.swapWithEvent(ctx, it, cond, events.OfServer(kind, host, t.Why, t.Since))
}

func (s *Store) swapWithEvent(ctx context.Context, it *table.Item, cond table.Cond, e events.Event) error {
	it.Fence = newFence()
	err := s.join(ctx, shard(e.Host, events.Shards), table.Op{Put: it, Cond: cond}, e)
	if _, conflict := found(err); !conflict {
		return err
	}
	items, getErr := s.t.Get(ctx, it.Key)
	if getErr != nil {
		return getErr
	}
	if items[it.Key].Fence == it.Fence {
		return nil // this very write, whose answer was lost
	}
	return err
}
