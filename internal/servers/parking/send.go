package parking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"fedpost/internal/message"
)

// Release says how parked deliveries are sent.
type Release struct {
	// Trial marks deliveries that decide about their server.
	Trial bool
	// Spread is the time over which deliveries become visible, each at a random time. The
	// ordered queue keeps order and ignores it.
	Spread time.Duration
	// Once lets the ordered queue drop a repetition of the same release within some minutes.
	Once bool
}

// Send sends deliveries to their queues and returns those that were sent. Damaged ones without
// a recipient are dropped. The caller then removes unordered ones from the lot (Unparked). A
// crash in between sends a delivery twice; in the other order it would lose it.
func (l *Lot) Send(ctx context.Context, ps []Parked, how Release) ([]Parked, error) {
	ps, err := l.drop(ctx, ps)
	if err != nil {
		return nil, err
	}
	ms := make([]message.Addressed, len(ps))
	for i, p := range ps {
		if ms[i], err = l.message(p, how); err != nil {
			return nil, err
		}
	}
	var sent []Parked
	var errs []error
	for i, err := range message.Send(ctx, l.Queues, ms) {
		if err != nil {
			errs = append(errs, fmt.Errorf("release %s to %s: %w", ps[i].Activity.ID, ms[i].Queue, err))
			continue
		}
		sent = append(sent, ps[i])
	}
	return sent, errors.Join(errs...)
}

func (l *Lot) drop(ctx context.Context, ps []Parked) (others []Parked, err error) {
	var ids []ID
	for _, p := range ps {
		if p.StoreKey == "" {
			others = append(others, p)
			continue
		}
		ids = append(ids, p.ID())
		cmp.Or(l.Log, slog.Default()).ErrorContext(ctx, "a parked delivery cannot be read, and was dropped: its activity is forgotten, or has no such recipient",
			"server", p.Key, "activity", p.Activity.ID, "chunk", p.Delivery.Chunk, "position", p.Delivery.Position, "error", p.Damaged)
	}
	if len(ids) == 0 {
		return ps, nil
	}
	if err := l.Store.Unpark(ctx, ids); err != nil {
		return nil, fmt.Errorf("drop damaged deliveries: %w", err)
	}
	return others, nil
}

func (l *Lot) message(p Parked, how Release) (message.Addressed, error) {
	d := p.Delivery
	d.Trial = how.Trial
	name := message.QueueOf(p.Activity)
	to := message.Sending{Queue: name, Can: l.Queues(name).Capabilities(), Now: l.Now()}
	switch {
	case how.Once && p.Due.IsZero():
	case how.Once:
		// An ordered delivery stays due until it is final. Messages for one due time have one
		// deduplication key.
		to.Copy = "due" + strconv.FormatInt(p.Due.UnixMilli(), 36)
	default:
		to.Copy = strconv.FormatInt(to.Now.UnixNano(), 36)
	}
	if !name.Ordered() {
		to.Wait = time.Duration(float64(how.Spread) * l.Random())
		if !d.Slot.IsZero() {
			to.Wait = d.Slot.Sub(to.Now)
		}
	}
	m, err := d.Queued(p.Activity, to)
	if err != nil {
		return m, fmt.Errorf("release %s: %w", p.Activity.ID, err)
	}
	return m, nil
}

// Unparked removes unordered deliveries from the lot. Ordered ones stay until they are final.
func (l *Lot) Unparked(ctx context.Context, ps []Parked) error {
	var ids []ID
	for _, p := range ps {
		if p.Group == "" {
			ids = append(ids, p.ID())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := l.Store.Unpark(ctx, ids); err != nil {
		return fmt.Errorf("remove deliveries from their lot: %w", err)
	}
	return nil
}
