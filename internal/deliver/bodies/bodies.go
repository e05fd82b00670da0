// Package bodies stores the large body of an activity once. Messages, spots and dead letters
// refer to it.
//
// An ordered activity of 256 KiB to 50,000 recipients would otherwise take 13 GB of its queue.
// Small bodies are in every message, because a read would cost more.
package bodies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

// Large is the size in bytes from which on a body may be stored once.
const Large = 16 << 10

// most is how many bytes of bodies are cached: 32 of the largest default size.
const most = 8 << 20

// Store is the part of ledger.Store that Bodies needs.
type Store interface {
	KeepBody(ctx context.Context, a activity.Activity, until time.Time) (activity.Apart, error)
	Body(ctx context.Context, a activity.Activity) (string, error)
	ForgetActivity(ctx context.Context, id activity.ID) error
}

// Bodies stores bodies once, and caches the last ones that this process used. Messages in work
// share one string. It is safe for concurrent use.
type Bodies struct {
	store Store
	// enough is the number of messages from which on a body is stored once.
	enough int
	reads  singleflight.Group

	mu   sync.Mutex
	of   map[activity.ID]activity.Activity
	old  []activity.ID // oldest first
	size int
}

// New returns the bodies in a store. The body of an activity in at least enough messages is
// stored once.
func New(store Store, enough int) *Bodies {
	return &Bodies{store: store, enough: enough, of: make(map[activity.ID]activity.Activity)}
}

// Apart stores the body of a once, if it goes into enough messages or into two items of the
// table; until is when the last item ends. (An item costs a write unit per kilobyte.) It
// returns a with the reference to the body.
func (b *Bodies) Apart(ctx context.Context, a activity.Activity, n, items int, until time.Time) (activity.Activity, error) {
	if n < b.enough && items < 2 || len(a.Body) < Large || a.Apart.Parts > 0 {
		return a, nil
	}
	if kept, ok := b.get(a.ID); ok && !kept.Apart.Until.Before(until) {
		a.Apart = kept.Apart
		return a, nil
	}
	var err error
	if a.Apart, err = b.store.KeepBody(ctx, a, until); err != nil {
		return a, fmt.Errorf("store the body of activity %s once: %w", a.ID, err)
	}
	b.put(a)
	return a, nil
}

// Load returns a with its body. If the body is gone, the error wraps ledger.ErrNoBody.
func (b *Bodies) Load(ctx context.Context, a activity.Activity) (activity.Activity, error) {
	if a.Apart.Parts == 0 || a.Body != "" {
		return a, nil
	}
	if kept, ok := b.get(a.ID); ok {
		a.Body = kept.Body
		return a, nil
	}
	// Messages of a batch need the same body at the same time.
	body, err, _ := b.reads.Do(string(a.ID), func() (any, error) { return b.store.Body(ctx, a) })
	if err != nil {
		return a, fmt.Errorf("read the body of activity %s: %w", a.ID, err)
	}
	a.Body = body.(string)
	b.put(a)
	return a, nil
}

// Forget removes the body of a forgotten activity, which attempts that were under way may have
// stored.
func (b *Bodies) Forget(ctx context.Context, a activity.Activity) error {
	if a.Apart.Parts == 0 || a.Body == "" {
		return nil
	}
	b.drop(a.ID)
	if err := b.store.ForgetActivity(ctx, a.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return fmt.Errorf("remove the body of a forgotten activity: %w", err)
	}
	return nil
}

func (b *Bodies) get(id activity.ID) (activity.Activity, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.of[id]
	return a, ok
}

func (b *Bodies) drop(id activity.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.of[id]; ok {
		b.size -= len(was.Body)
		delete(b.of, id)
		b.old = slices.DeleteFunc(b.old, func(other activity.ID) bool { return other == id })
	}
}

func (b *Bodies) put(a activity.Activity) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.of[a.ID]; ok {
		b.size -= len(was.Body)
	} else {
		b.old = append(b.old, a.ID)
	}
	b.of[a.ID] = a
	for b.size += len(a.Body); b.size > most; b.old = b.old[1:] {
		b.size -= len(b.of[b.old[0]].Body)
		delete(b.of, b.old[0])
	}
}
