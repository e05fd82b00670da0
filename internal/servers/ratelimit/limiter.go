package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrChanged says that another worker has saved the limit since it was loaded.
var ErrChanged = errors.New("rate limit has changed")

// Store stores limits.
type Store interface {
	// Limits returns the limits that exist, by host, in one request per 100.
	Limits(ctx context.Context, hosts ...string) (map[string]Limit, error)
	// SaveLimit writes l and returns it with its new version. If the stored version is not
	// l.Version (empty: nothing is stored), it returns ErrChanged.
	SaveLimit(ctx context.Context, l Limit) (Limit, error)
}

// Limiter reserves deliveries under limits that all workers share.
type Limiter struct {
	Store Store
	Now   func() time.Time
}

// Reserve asks for n deliveries to host. For each it returns when it may be sent (zero: now)
// or, if that is later, when to try again. It takes one read, and one write if the host has a
// limit.
func (r Limiter) Reserve(ctx context.Context, host string, n int) ([]time.Time, error) {
	times := make([]time.Time, n)
	_, err := r.change(ctx, host, func(l Limit) Limit {
		granted, after, later := l.Take(n, r.Now())
		clear(times[:granted])
		copy(times[granted:], later)
		return after
	})
	if err != nil {
		return nil, fmt.Errorf("take from the rate limit: %w", err)
	}
	return times, nil
}

// Book reserves up to n deliveries to host, each for a time of its own within horizon, and
// returns these times. It takes one read, and one write if the host has a limit.
func (r Limiter) Book(ctx context.Context, host string, n int, horizon time.Duration) ([]time.Time, error) {
	var slots []time.Time
	_, err := r.change(ctx, host, func(l Limit) (after Limit) {
		slots, after = l.Book(n, horizon, r.Now())
		return after
	})
	if err != nil {
		return nil, fmt.Errorf("book slots of a rate limit: %w", err)
	}
	return slots, nil
}

// Learn records that host answered 429 while it accepted perMinute deliveries a minute (0: not
// known), and returns the new limit.
func (r Limiter) Learn(ctx context.Context, host string, perMinute int) (Limit, error) {
	l, err := r.change(ctx, host, func(l Limit) Limit { return l.Learn(perMinute, r.Now()) })
	if err != nil {
		return l, fmt.Errorf("learn a rate limit: %w", err)
	}
	return l, nil
}

// Set sets the limit of host, in deliveries a minute; 0: none. Limit explains burst.
func (r Limiter) Set(ctx context.Context, host string, perMinute, burst int) (Limit, error) {
	l, err := r.change(ctx, host, func(l Limit) Limit { return l.Set(perMinute, burst, r.Now()) })
	if err != nil {
		return l, fmt.Errorf("set a rate limit: %w", err)
	}
	return l, nil
}

// Limit returns the limit of host. ok is false if there is none.
func (r Limiter) Limit(ctx context.Context, host string) (l Limit, ok bool, err error) {
	found, err := r.Store.Limits(ctx, host)
	if err != nil {
		return Limit{}, false, err
	}
	l = found[host]
	return l, l.InForce(r.Now()), nil
}

// tries bounds how often change starts over; at least one worker succeeds each time.
const tries = 100

func (r Limiter) change(ctx context.Context, host string, f func(Limit) Limit) (Limit, error) {
	for range tries {
		found, err := r.Store.Limits(ctx, host)
		if err != nil {
			return Limit{}, err
		}
		old, ok := found[host]
		if !ok {
			old = Limit{Host: host}
		}
		next := f(old)
		if next == old {
			return old, nil
		}
		saved, err := r.Store.SaveLimit(ctx, next)
		if err == nil || !errors.Is(err, ErrChanged) {
			return saved, err
		}
	}
	return Limit{}, fmt.Errorf("%s kept changing under %d tries: %w", host, tries, ErrChanged)
}
