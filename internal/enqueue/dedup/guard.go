package dedup

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"fedpost/internal/activity"
)

// Store keeps markers. FindMarker reads; each other method is one conditional write, which
// may be repeated with the same marker after its answer was lost.
type Store interface {
	// FindMarker returns the marker stored under key, expired or not, or nil.
	FindMarker(ctx context.Context, key string) (*Marker, error)
	// ReserveMarker writes m if no unexpired marker is stored under key, else returns the
	// stored marker. A stored marker with m's token counts as success.
	ReserveMarker(ctx context.Context, key string, m Marker) (found *Marker, err error)
	// ReplaceMarker writes m in place of the marker that carries token, or
	// returns ErrLost. Finding m already stored is success.
	ReplaceMarker(ctx context.Context, key, token string, m Marker) error
	// ReleaseMarker removes the marker that carries token, or returns ErrLost.
	ReleaseMarker(ctx context.Context, key, token string) error
}

// ErrLost says that the marker carries another holder's token, or has been
// removed.
var ErrLost = errors.New("deduplication marker is another's")

// Fallback says what happens to a call with a key when no marker can be written.
type Fallback string

const (
	// Open proceeds as if no key had been given: availability first.
	Open Fallback = "open"
	// Closed refuses before any side effect: no duplicate, whatever happens.
	Closed Fallback = "closed"
)

const (
	DefaultTTL    = time.Hour
	DefaultPrefix = "fedpost"
)

// LeaseTime is how long a lease lasts. It is longer than an API call may take (API Gateway:
// 29 s), so a lease lapses only when its holder is gone.
const LeaseTime = 30 * time.Second

// Patience is how long a request may take from its start, so that it never outlives its
// lease.
const Patience = LeaseTime - margin

// margin is how long before the end of its lease a holder stops, as clocks differ a little.
const margin = 2 * time.Second

// pendingGrace is how long a pending marker is kept after its lease at least, even if the
// caller's window is shorter: without the marker, an ambiguous send could be repeated under a
// new id.
const pendingGrace = 10 * time.Minute

type Options struct {
	TTL      time.Duration // DEDUPLICATION_TTL; default DefaultTTL
	Prefix   string        // DEDUPLICATION_PREFIX; default DefaultPrefix
	Fallback Fallback      // DEDUPLICATION_FALLBACK; default Open

	// Alone is set by a process that has the table for itself, to a name that no earlier
	// process had. Leases of earlier processes are over then.
	Alone string

	// Counted, if set, is called with Duplicates or Fallbacks for each such
	// event.
	Counted func(what string, n int)

	Now     func() time.Time
	Entropy io.Reader // of tokens
	Log     *slog.Logger
}

// The names that Options.Counted is called with.
const (
	Duplicates = "Duplicates"             // calls answered as duplicates
	Fallbacks  = "DeduplicationFallbacks" // calls whose marker could not be written
)

// TablePatience bounds a call to the table if the fallback is open: a table that is down must
// not use up the request's time.
const TablePatience = 5 * time.Second

// Guard hands out leases on keys.
type Guard struct {
	store Store
	o     Options
}

func New(store Store, o Options) *Guard {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Fallback = cmp.Or(o.Fallback, Open)
	if o.Counted == nil {
		o.Counted = func(string, int) {}
	}
	return &Guard{store: store, o: o}
}

// Claim is one caller's request for the lease on a key.
type Claim struct {
	Name        Name
	ID          activity.ID // the activity's id if this call is the first with the key
	At          time.Time   // the time of the call, used in the same case
	Fingerprint string
	// Delay is how much later than now the activity is due. The key's window
	// starts at the due time.
	Delay time.Duration
	// TTL is the length of the window; 0 means Options.TTL.
	TTL time.Duration
}

// HeldError says that another call with the same key is not finished.
type HeldError struct {
	ID         activity.ID
	RetryAfter time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("another call with this deduplication key is in progress, or ended without an answer; try again in %s", e.RetryAfter)
}

// DuplicateError names the activity of a key that was used.
type DuplicateError struct{ ID activity.ID }

func (e *DuplicateError) Error() string { return "duplicate of activity " + string(e.ID) }

// MismatchError says that the key stands for a different request.
type MismatchError struct{ ID activity.ID }

func (e *MismatchError) Error() string {
	return "deduplication key was used for a different request, activity " + string(e.ID)
}

// ErrUnavailable says that no marker could be written and the fallback is closed.
var ErrUnavailable = errors.New("deduplication is not available")

// Reserve takes the key's lease. Its errors are *HeldError, *DuplicateError, *MismatchError
// and ErrUnavailable.
func (g *Guard) Reserve(ctx context.Context, c Claim) (*Lease, error) {
	token, err := g.token()
	if err != nil {
		return nil, err
	}
	if c.TTL <= 0 {
		c.TTL = g.o.TTL
	}
	now, ttl := g.o.Now(), c.Delay+c.TTL
	l := &Lease{g: g, key: g.o.Prefix + c.Name.Hash(), ttl: ttl, m: Marker{
		State: Pending, Token: token, ID: c.ID, At: c.At, Fingerprint: c.Fingerprint,
		LeaseUntil: now.Add(LeaseTime), Expires: now.Add(max(ttl, LeaseTime+pendingGrace)),
	}}
	brief, cancel := g.Brief(ctx)
	defer cancel()
	found, err := g.store.ReserveMarker(brief, l.key, l.m)
	if err != nil {
		return g.fallBack(ctx, l, err)
	}
	if found == nil {
		return l, nil
	}
	if !strings.HasPrefix(found.Token, g.o.Alone) {
		found.LeaseUntil = time.Time{}
	}
	switch Judge(found, l.m.Fingerprint, now) {
	case Different:
		return nil, &MismatchError{ID: found.ID}
	case Done:
		g.Hit()
		return nil, &DuplicateError{ID: found.ID}
	case Held:
		return nil, &HeldError{ID: found.ID, RetryAfter: found.LeaseUntil.Sub(now)}
	case Lapsed:
		// The first holder may have sent, so the id stays.
		l.m.ID, l.m.At, l.TakenOver = found.ID, found.At, true
	case Free:
		// The marker has expired since the store looked.
	}
	err = g.store.ReplaceMarker(brief, l.key, found.Token, l.m)
	switch {
	case errors.Is(err, ErrLost):
		return nil, &HeldError{ID: found.ID, RetryAfter: LeaseTime}
	case err != nil:
		return g.fallBack(ctx, l, err)
	}
	return l, nil
}

// Known reports whether a marker stands for the key. If the table cannot be read, Known
// reports false with the open fallback, and ErrUnavailable with the closed one.
func (g *Guard) Known(ctx context.Context, n Name) (bool, error) {
	ctx, cancel := g.Brief(ctx)
	defer cancel()
	found, err := g.store.FindMarker(ctx, g.o.Prefix+n.Hash())
	if err != nil && !g.Open() {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		g.o.Log.DebugContext(ctx, "deduplication markers cannot be read", "error", err)
	}
	return found != nil && found.Expires.After(g.o.Now()), nil
}

// Open reports whether calls go on while the table is down
// (DEDUPLICATION_FALLBACK=open).
func (g *Guard) Open() bool { return g.o.Fallback == Open }

// Brief returns the context for one call to the table: bounded by TablePatience
// if the fallback is open, else ctx's own deadline.
func (g *Guard) Brief(ctx context.Context) (context.Context, context.CancelFunc) {
	if !g.Open() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, TablePatience)
}

// fallBack decides whether a call goes on whose marker could not be written. If the write
// happened and only its answer was lost, a call that takes the marker over repeats this
// activity: so the lease keeps id and token.
func (g *Guard) fallBack(ctx context.Context, l *Lease, cause error) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reserve deduplication key: %w", err)
	}
	if l.over() {
		return nil, fmt.Errorf("reserve deduplication key: %w before it was taken: %w", ErrOver, cause)
	}
	g.FellBack()
	if !g.Open() {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	g.o.Log.DebugContext(ctx, "deduplication is not available, going on without it", "error", cause)
	l.unsure = true
	return l, nil
}

// Hit counts a call that is answered as a duplicate.
func (g *Guard) Hit() { g.o.Counted(Duplicates, 1) }

// FellBack counts a call whose key could not be looked up.
func (g *Guard) FellBack() { g.o.Counted(Fallbacks, 1) }

func (g *Guard) token() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(g.o.Entropy, b[:]); err != nil {
		return "", fmt.Errorf("make deduplication token: %w", err)
	}
	return g.o.Alone + hex.EncodeToString(b[:]), nil
}
