package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
)

// Lease is the right to send under a key. A lease ends with Confirm, with
// GiveBack or when its time is up.
type Lease struct {
	// TakenOver: another call held the lease before and may have sent.
	TakenOver bool

	g   *Guard
	key string
	m   Marker
	ttl time.Duration
	// unsure: the write of the marker failed or its answer was lost.
	unsure bool
}

// ID is the activity id to send under: the first holder's.
func (l *Lease) ID() activity.ID { return l.m.ID }

// At is the time of the first holder's call.
func (l *Lease) At() time.Time { return l.m.At }

// Adopt makes the key stand for another call's activity of the same request. Confirm writes
// the change.
func (l *Lease) Adopt(id activity.ID, at time.Time) { l.m.ID, l.m.At = id, at }

// Left is how long the holder may still act, at least 0.
func (l *Lease) Left() time.Duration {
	return max(0, l.m.LeaseUntil.Sub(l.g.o.Now())-margin)
}

// over reports whether l has ended or is about to end. Another call may then act under the
// same id, even if its own marker could not be written.
func (l *Lease) over() bool { return l.Left() == 0 }

// Confirm marks the key as used. After a failure the marker stays pending, and a call that
// takes it over repeats the send under the same id.
func (l *Lease) Confirm(ctx context.Context) error {
	m := l.m
	m.State = Sent
	m.Expires = l.g.o.Now().Add(l.ttl)
	ctx, cancel := l.g.Brief(ctx)
	defer cancel()
	err := l.g.store.ReplaceMarker(ctx, l.key, l.m.Token, m)
	if l.unsure && errors.Is(err, ErrLost) {
		err = l.confirmOver(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("confirm deduplication marker: %w", err)
	}
	return nil
}

// confirmOver confirms a call that went on without a marker: m is written if none is stored,
// or in place of a pending marker for the same activity.
func (l *Lease) confirmOver(ctx context.Context, m Marker) error {
	found, err := l.g.store.ReserveMarker(ctx, l.key, m)
	switch {
	case err != nil || found == nil:
		return err
	case found.ID != m.ID:
		return fmt.Errorf("%w: the key stands for activity %s", ErrLost, found.ID)
	case found.State == Sent:
		return nil
	}
	return l.g.store.ReplaceMarker(ctx, l.key, found.Token, m)
}

// GiveBack ends the lease after a definite failure to send, so that a retry need not wait for
// the lease's end. It reports whether the id is dead: nobody has sent or will send under it,
// and its records may be removed. ctx must end with the lease (Patience).
//
// The id of a lease that was taken over is not dead, as the first holder may have sent: the
// marker keeps the id and may be taken over at once. Nor is it dead after the lease
// (ErrOver), when the marker may be another call's.
func (l *Lease) GiveBack(ctx context.Context) (dead bool, err error) {
	if l.over() {
		return false, ErrOver
	}
	if l.TakenOver {
		m := l.m
		m.LeaseUntil = l.g.o.Now()
		err = l.g.store.ReplaceMarker(ctx, l.key, l.m.Token, m)
	} else {
		err = l.g.store.ReleaseMarker(ctx, l.key, l.m.Token)
	}
	switch {
	case err == nil:
		return !l.TakenOver, nil
	case errors.Is(err, ErrLost) && l.unsure:
		// Either the marker was never written or another call has taken it over.
		// The second is possible, so the id's records stay.
		return false, nil
	default:
		return false, fmt.Errorf("release deduplication marker: %w", err)
	}
}

// ErrOver says that a lease ended before GiveBack: the marker stays, and another
// call may take it over.
var ErrOver = errors.New("the lease is over")
