package dedup

import (
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

// Store keeps markers. FindMarker reads; each other method is one conditional
// write. Every write may be repeated with the same marker: a write whose answer
// was lost succeeds when repeated, because the store finds the writer's own
// marker.
type Store interface {
	// FindMarker returns the marker stored under key, expired or not, or nil.
	FindMarker(ctx context.Context, key string) (*Marker, error)
	// ReserveMarker writes m if no unexpired marker is stored under key;
	// otherwise it returns the stored marker. A stored marker with m's own token
	// counts as success.
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

// The fallbacks.
const (
	// Open proceeds as if no key had been given: availability first.
	Open Fallback = "open"
	// Closed refuses before any side effect: no duplicate, whatever happens.
	Closed Fallback = "closed"
)

// Defaults of Options.
const (
	DefaultTTL    = time.Hour
	DefaultPrefix = "fedpost"
	// DefaultLease is longer than an API call may take (API Gateway: 29 s), so
	// that a lease lapses only when its holder is gone.
	DefaultLease = 30 * time.Second
)

// margin is how long before the end of its lease a holder stops. Calls under way
// then end within the lease, even if the processes' clocks differ a little.
const margin = 2 * time.Second

// pendingGrace is how long a pending marker is kept at least, even if the caller
// asked for a shorter window. The marker must outlive its lease: otherwise an
// ambiguous send could be repeated under a new id.
const pendingGrace = 10 * time.Minute

// Options of a Guard.
type Options struct {
	TTL      time.Duration // DEDUPLICATION_TTL; default DefaultTTL
	Prefix   string        // DEDUPLICATION_PREFIX; default DefaultPrefix
	Fallback Fallback      // DEDUPLICATION_FALLBACK; default Open
	Lease    time.Duration // default DefaultLease

	// Alone is set by a process that has the table for itself, to a name that no earlier
	// process had. Leases of earlier processes are over then: their holders are gone.
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
	Fallbacks  = "DeduplicationFallbacks" // calls whose key no marker could be written for
)

// TablePatience bounds a call to the table where the open fallback can go on
// without the answer: a table that is down must not use up the request's time.
const TablePatience = 5 * time.Second

// Guard hands out leases on keys.
type Guard struct {
	store  Store
	o      Options
	counts counters
}

// New returns a guard on store. With a nil store every call with a key takes the
// fallback.
func New(store Store, o Options) *Guard {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Fallback == "" {
		o.Fallback = Open
	}
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if o.Counted == nil {
		o.Counted = func(string, int) {}
	}
	return &Guard{store: store, o: o}
}

// Patience is how long a request may take from its start, so that a request never
// outlives its lease: 28 s unless Options.Lease is set.
func (g *Guard) Patience() time.Duration { return max(g.o.Lease-margin, g.o.Lease/2) }

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
	return fmt.Sprintf("another call with this deduplication key is in progress, or ended without saying how; try again in %s", e.RetryAfter)
}

// DuplicateError says that the key has been used, and names the activity it
// stands for.
type DuplicateError struct{ ID activity.ID }

func (e *DuplicateError) Error() string { return "duplicate of activity " + string(e.ID) }

// MismatchError says that the key stands for a different request.
type MismatchError struct{ ID activity.ID }

func (e *MismatchError) Error() string {
	return "deduplication key was used for a different request, activity " + string(e.ID)
}

// ErrUnavailable says that no marker could be written, and that the fallback is
// closed.
var ErrUnavailable = errors.New("deduplication is not available")

// errNoStore is the cause of the fallback where no table is configured.
var errNoStore = errors.New("no table is configured")

// Reserve takes the key's lease, or says by its error (*HeldError,
// *DuplicateError, *MismatchError, ErrUnavailable) why not.
func (g *Guard) Reserve(ctx context.Context, c Claim) (*Lease, error) {
	token, err := g.token()
	if err != nil {
		return nil, err
	}
	if c.TTL <= 0 {
		c.TTL = g.o.TTL
	}
	l := &Lease{
		g: g, key: g.o.Prefix + c.Name.Hash(), ttl: c.Delay + c.TTL,
		m: Marker{State: Pending, Token: token, ID: c.ID, At: c.At, Fingerprint: c.Fingerprint},
	}
	if g.store == nil {
		return g.fallBack(ctx, l, errNoStore)
	}
	return g.reserve(ctx, l)
}

// Known reports whether a marker stands for the key. If the table cannot be read, Known
// reports false with the open fallback, and ErrUnavailable with the closed one.
func (g *Guard) Known(ctx context.Context, n Name) (bool, error) {
	if g.store == nil {
		return false, nil
	}
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

func (g *Guard) reserve(ctx context.Context, l *Lease) (*Lease, error) {
	now := g.o.Now()
	l.start(now)
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
		g.counts.mismatches.Add(1)
		return nil, &MismatchError{ID: found.ID}
	case Done:
		g.hit()
		return nil, &DuplicateError{ID: found.ID}
	case Held:
		g.counts.held.Add(1)
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
		g.counts.held.Add(1)
		return nil, &HeldError{ID: found.ID, RetryAfter: g.o.Lease}
	case err != nil:
		return g.fallBack(ctx, l, err)
	}
	if l.TakenOver {
		g.counts.takeOvers.Add(1)
	}
	return l, nil
}

// fallBack decides whether a call goes on whose marker could not be written. The
// write may have happened although its answer was lost, so an open fallback keeps
// the id and token of that write: a call that takes the marker over then repeats
// this activity instead of making another.
func (g *Guard) fallBack(ctx context.Context, l *Lease, cause error) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reserve deduplication key: %w", err)
	}
	if l.over() {
		return nil, fmt.Errorf("reserve deduplication key: %w before it was taken: %w", ErrOver, cause)
	}
	g.NativeFallback()
	if !g.Open() {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	g.o.Log.DebugContext(ctx, "deduplication is not available, going on without it", "error", cause)
	l.unsure = true
	return l, nil
}

func (g *Guard) token() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(g.o.Entropy, b[:]); err != nil {
		return "", fmt.Errorf("make deduplication token: %w", err)
	}
	return g.o.Alone + hex.EncodeToString(b[:]), nil
}
