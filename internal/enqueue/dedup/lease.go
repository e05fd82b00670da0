package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
)

// Lease is the right to send under a key. It ends with Confirm, with GiveBack
// or by itself.
type Lease struct {
	// TakenOver: another call held it before and may have sent.
	TakenOver bool

	g   *Guard
	key string
	m   Marker
	ttl time.Duration
	// unsure: it is not known whether the marker was written.
	unsure bool
}

// ID is the activity id to send under: the first holder's.
func (l *Lease) ID() activity.ID { return l.m.ID }

// At is when the first holder was called.
func (l *Lease) At() time.Time { return l.m.At }

// Adopt makes the key stand for an activity that another call has made of the same
// request. Confirm writes it.
func (l *Lease) Adopt(id activity.ID, at time.Time) { l.m.ID, l.m.At = id, at }

// start begins the lease at now.
func (l *Lease) start(now time.Time) {
	l.m.LeaseUntil = now.Add(l.g.o.Lease)
	l.m.Expires = now.Add(max(l.ttl, l.g.o.Lease+pendingGrace))
}

// Left is how long the holder may still act: until shortly before the lease ends,
// at least 0.
func (l *Lease) Left() time.Duration {
	return max(0, l.m.LeaseUntil.Sub(l.g.o.Now())-(l.g.o.Lease-l.g.Patience()))
}

// over reports whether l has ended, or is about to: then another call may hold
// the key, and may go on under the same id although its own marker could not be
// written. The stored marker does not show that.
func (l *Lease) over() bool { return l.Left() == 0 }

// Confirm marks the key as used. The send has happened by now, so a failure
// changes nothing for the caller: the marker stays pending, and who takes it
// over repeats the send under the same id.
func (l *Lease) Confirm(ctx context.Context) error {
	if l.g.store == nil {
		return nil
	}
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

// confirmOver is for a call that went on without a marker of its own. If there is
// none, m becomes the marker; and a marker that stands for the same activity is
// confirmed in its holder's place, who has less to tell: m's call has sent.
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

// GiveBack ends the lease after a definite failure to send, so that a retry
// need not wait for it to lapse. It reports whether the id is dead: nobody has
// sent or will send under it, and its records may go. The caller's context ends
// with the lease (Guard.Patience).
//
// A lease that was taken over is not dead, since its first holder may have
// sent: its marker stays and keeps the id, free to be taken over at once. Nor is
// a lease that is over, whose marker may be another call's by now.
func (l *Lease) GiveBack(ctx context.Context) (dead bool, err error) {
	if l.g.store == nil {
		return true, nil
	}
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
		l.g.counts.releases.Add(1)
		return !l.TakenOver, nil
	case errors.Is(err, ErrLost) && l.unsure:
		// The marker was never written, or another call has taken it over: which
		// one is not known, so the id's records stay.
		return false, nil
	default:
		return false, fmt.Errorf("release deduplication marker: %w", err)
	}
}

// ErrOver says that a lease ended before it was given back: its marker stays and
// is free to be taken over.
var ErrOver = errors.New("the lease is over")
