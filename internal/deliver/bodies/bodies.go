// Package bodies stores the large body of an activity once where many messages, spots or
// dead letters need it, which then refer to it.
//
// One ordered activity of 256 KiB to 50,000 recipients would be 13 GB on its queue, and so
// would the retries of one that all refuse. Small bodies are in every message: to read them
// elsewhere would cost more than to carry them.
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

// Large is from how many bytes on a body may be stored once.
const Large = 16 << 10

// most is how many bytes of bodies are remembered: 32 of the largest that are taken by
// default.
const most = 8 << 20

// Store is what Bodies needs of the ledger.
type Store interface {
	KeepBody(ctx context.Context, a activity.Activity, until time.Time) (activity.Apart, error)
	Body(ctx context.Context, a activity.Activity) (string, error)
	ForgetActivity(ctx context.Context, id activity.ID) error
}

// Bodies stores bodies once, and remembers those that this process has used last, so that it
// reads each once and not for each message, and messages that are worked on at once share
// one string. It is safe for concurrent use.
type Bodies struct {
	store Store
	// enough is from how many messages of an activity on its body is stored once.
	enough int
	reads  singleflight.Group

	mu   sync.Mutex
	of   map[activity.ID]activity.Activity
	old  []activity.ID // oldest first
	size int
}

// New returns the bodies in a store. The body of an activity that is in enough messages is
// stored once.
func New(store Store, enough int) *Bodies {
	return &Bodies{store: store, enough: enough, of: make(map[activity.ID]activity.Activity)}
}

// Apart returns a as it goes into n messages, and into a number of items of the table, the
// last of which needs the body until a time. An item costs a write unit for each kilobyte,
// so two are as good as enough messages. The body is stored before anything refers to it.
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

// Load returns a with its body. The error of a body that is gone wraps ledger.ErrNoBody.
func (b *Bodies) Load(ctx context.Context, a activity.Activity) (activity.Activity, error) {
	if a.Apart.Parts == 0 || a.Body != "" {
		return a, nil
	}
	if kept, ok := b.get(a.ID); ok {
		a.Body = kept.Body
		return a, nil
	}
	// The messages of a batch need the same body at the same time.
	body, err, _ := b.reads.Do(string(a.ID), func() (any, error) { return b.store.Body(ctx, a) })
	if err != nil {
		return a, fmt.Errorf("read the body of activity %s: %w", a.ID, err)
	}
	a.Body = body.(string)
	b.put(a)
	return a, nil
}

// Forget removes the body of an activity that is forgotten: attempts that were under way
// then may have stored it once for their retries.
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
