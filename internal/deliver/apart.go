package deliver

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

// A large body is stored once for an activity that needs many messages, spots or dead
// letters, which then refer to it. One ordered activity of 256 KiB to 50,000 recipients
// would be 13 GB on its queue, and so would the retries of one that all refuse. Small
// bodies are in every message: to read them elsewhere would cost more than to carry them.

// LargeBody is from how many bytes on a body may be stored once.
const LargeBody = 16 << 10

// apart returns a as it goes into n messages or items, the last of which needs the body
// until a time. The body is stored before anything refers to it.
func (v *invocation) apart(ctx context.Context, a activity.Activity, n, enough int, until time.Time) (activity.Activity, error) {
	if n < enough || len(a.Body) < LargeBody || a.Apart.Parts > 0 {
		return a, nil
	}
	if kept, ok := v.bodies.get(a.ID); ok && !kept.Apart.Until.Before(until) {
		a.Apart = kept.Apart
		return a, nil
	}
	var err error
	if a.Apart, err = v.Ledger.KeepBody(ctx, a, until); err != nil {
		return a, fmt.Errorf("store the body of activity %s once: %w", a.ID, err)
	}
	v.bodies.put(a)
	return a, nil
}

// storeOnce stores the body of the unit's activity once, if it is about to be copied for
// several recipients: for each that is retried in a message, and for each that is parked or
// dead in an item of the table, which costs a write unit for each kilobyte.
func (u *unit) storeOnce(ctx context.Context) (err error) {
	messages, items := 0, 0
	for _, j := range u.jobs {
		switch j.state {
		case activity.Retrying:
			messages++
		case activity.Parked, activity.Dead:
			items++
		}
	}
	if items > 1 {
		messages += u.Limits.Copies
	}
	u.a, err = u.apart(ctx, u.a, messages, u.Limits.Copies, u.keptUntil())
	return err
}

// keptUntil is how long what belongs to the unit's activity is kept.
func (u *unit) keptUntil() time.Time {
	if until := u.known.Record.Forget; !until.IsZero() {
		return until
	}
	return u.a.CreatedAt.Add(defaultForget)
}

// load reads the body of the unit's activity, if the message refers to it. A body that is
// gone is no error yet: the activity may be forgotten, or nothing may be left to be sent.
func (u *unit) load(ctx context.Context) error {
	if u.a.Apart.Parts == 0 || u.a.Body != "" {
		return nil
	}
	if kept, ok := u.bodies.get(u.a.ID); ok {
		u.a.Body = kept.Body
		return nil
	}
	// The messages of a batch need the same body at the same time.
	body, err, _ := u.bodies.reads.Do(string(u.a.ID), func() (any, error) { return u.Ledger.Body(ctx, u.a) })
	switch {
	case errors.Is(err, ledger.ErrNoBody):
		u.gone = err
		return nil
	case err != nil:
		return fmt.Errorf("read the body of activity %s: %w", u.a.ID, err)
	}
	u.a.Body = body.(string)
	u.bodies.put(u.a)
	return nil
}

// forgetBody removes the body of an activity that is forgotten: attempts that were under way
// then may have stored it once for their retries.
func (u *unit) forgetBody(ctx context.Context) error {
	if !u.known.Record.Forgotten || u.a.Apart.Parts == 0 || u.a.Body == "" {
		return nil
	}
	u.bodies.drop(u.a.ID)
	if err := u.Ledger.ForgetActivity(ctx, u.a.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return fmt.Errorf("remove the body of a forgotten activity: %w", err)
	}
	return nil
}

// bodies are the bodies stored once that this process has used last, so that it reads each
// once and not for each message, and messages that are worked on at once share one string.
type bodies struct {
	reads singleflight.Group
	mu    sync.Mutex
	of    map[activity.ID]activity.Activity
	old   []activity.ID // oldest first
	size  int
}

// mostBodies is how many bytes of bodies are remembered: 32 of the largest that are taken
// by default.
const mostBodies = 8 << 20

func newBodies() *bodies { return &bodies{of: make(map[activity.ID]activity.Activity)} }

func (b *bodies) get(id activity.ID) (activity.Activity, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.of[id]
	return a, ok
}

func (b *bodies) drop(id activity.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.of[id]; ok {
		b.size -= len(was.Body)
		delete(b.of, id)
		b.old = slices.DeleteFunc(b.old, func(other activity.ID) bool { return other == id })
	}
}

func (b *bodies) put(a activity.Activity) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.of[a.ID]; ok {
		b.size -= len(was.Body)
	} else {
		b.old = append(b.old, a.ID)
	}
	b.of[a.ID] = a
	for b.size += len(a.Body); b.size > mostBodies; b.old = b.old[1:] {
		b.size -= len(b.of[b.old[0]].Body)
		delete(b.of, b.old[0])
	}
}
