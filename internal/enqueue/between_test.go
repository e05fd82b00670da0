package enqueue_test

import (
	"context"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
)

// between runs a function before the at-th call that a service makes.
type between struct {
	at, made int
	run      func()
}

func (b *between) call() {
	if b.made++; b.made == b.at {
		b.run()
	}
}

type betweenMarkers struct {
	dedup.Store
	b *between
}

func (b *between) markers(s dedup.Store) dedup.Store { return betweenMarkers{s, b} }

func (m betweenMarkers) FindMarker(ctx context.Context, key string) (*dedup.Marker, error) {
	m.b.call()
	return m.Store.FindMarker(ctx, key)
}

func (m betweenMarkers) ReserveMarker(ctx context.Context, key string, x dedup.Marker) (*dedup.Marker, error) {
	m.b.call()
	return m.Store.ReserveMarker(ctx, key, x)
}

func (m betweenMarkers) ReplaceMarker(ctx context.Context, key, token string, x dedup.Marker) error {
	m.b.call()
	return m.Store.ReplaceMarker(ctx, key, token, x)
}

type betweenLedger struct {
	enqueue.Ledger
	b *between
}

func (b *between) ledger(l enqueue.Ledger) enqueue.Ledger { return betweenLedger{l, b} }

func (l betweenLedger) CreateOrdered(ctx context.Context, r ledger.Record, prev activity.ID, since time.Time, contested bool) (ledger.Record, bool, error) {
	l.b.call()
	return l.Ledger.CreateOrdered(ctx, r, prev, since, contested)
}

type betweenQueue struct {
	queue.Sender
	b *between
}

func (b *between) queue(w *world) queue.Sender { return betweenQueue{w.engine.Queue(queue.Ordered), b} }

func (q betweenQueue) Send(ctx context.Context, m queue.Message) error {
	q.b.call()
	return q.Sender.Send(ctx, m)
}
