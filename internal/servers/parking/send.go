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
	// Trial marks the deliveries as those whose outcome decides about their
	// server.
	Trial bool
	// Spread is the time over which the deliveries become visible, each at a
	// random time, so that a server that is back does not get them all at once.
	// The ordered queue keeps order and heeds no Spread.
	Spread time.Duration
	// Once lets the ordered queue drop a delivery if it remembers the same
	// release from the last minutes. Without Once the delivery is sent in any
	// case.
	Once bool
}

// Send sends deliveries to their queues and returns those that were sent. Those that are
// damaged and have no recipient are dropped. The spots of those that were sent stay; the caller empties the spots of unordered deliveries afterwards
// (Unparked). A crash between the two sends a delivery twice; in the opposite
// order a crash would lose a delivery.
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

// drop empties the spots of deliveries that have nobody to go to, and returns the others.
func (l *Lot) drop(ctx context.Context, ps []Parked) (others []Parked, err error) {
	var spots []Spot
	for _, p := range ps {
		if p.Place == "" {
			others = append(others, p)
			continue
		}
		spots = append(spots, p.Spot())
		cmp.Or(l.Log, slog.Default()).ErrorContext(ctx, "a parked delivery cannot be read, and was dropped: its activity is forgotten, or has no such recipient",
			"server", p.Key, "activity", p.Activity.ID, "chunk", p.Delivery.Chunk, "position", p.Delivery.Position, "error", p.Damaged)
	}
	if len(spots) == 0 {
		return ps, nil
	}
	if err := l.Spots.Unpark(ctx, spots); err != nil {
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
		// The spot of an ordered delivery stays due until the delivery has its
		// final outcome. Messages for the same due time have the same
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

// Unparked empties the spots of unordered deliveries; ordered deliveries keep
// theirs.
func (l *Lot) Unparked(ctx context.Context, ps []Parked) error {
	var spots []Spot
	for _, p := range ps {
		if p.Group == "" {
			spots = append(spots, p.Spot())
		}
	}
	if len(spots) == 0 {
		return nil
	}
	if err := l.Spots.Unpark(ctx, spots); err != nil {
		return fmt.Errorf("empty spots: %w", err)
	}
	return nil
}
