package dedup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"fedpost/internal/activity"
)

// Store keeps markers. Each of its methods but the first is one conditional
// write, and each is harmless to repeat with the same marker: a write whose
// answer was lost and that is found to be one's own has succeeded.
type Store interface {
	// FindMarker returns what is stored under key, expired or not; nil if nothing.
	FindMarker(ctx context.Context, key string) (*Marker, error)
	// ReserveMarker writes m if nothing unexpired is stored under key, else it
	// returns what is. Finding m's own token is success.
	ReserveMarker(ctx context.Context, key string, m Marker) (found *Marker, err error)
	// ReplaceMarker writes m in place of the marker that carries token, or
	// returns ErrLost. Finding m already there is success.
	ReplaceMarker(ctx context.Context, key, token string, m Marker) error
	// ReleaseMarker removes the marker that carries token, or returns ErrLost.
	ReleaseMarker(ctx context.Context, key, token string) error
}

// ErrLost says that a marker carries another's token, or is gone.
var ErrLost = errors.New("deduplication marker is another's")

// Fallback is what to do with a key if no marker can be written.
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

// margin is how long before the end of its lease a holder stops: calls that are
// under way then still come to their end in it, and clocks may differ by some.
const margin = 2 * time.Second

// pendingGrace is how long a pending marker stays to be taken over at least,
// even if the caller asked for a shorter window: it must outlive its lease, or
// an ambiguous send could be repeated under a new id.
const pendingGrace = 10 * time.Minute

// Options of a Guard.
type Options struct {
	TTL      time.Duration // DEDUPLICATION_TTL; default DefaultTTL
	Prefix   string        // DEDUPLICATION_PREFIX; default DefaultPrefix
	Fallback Fallback      // DEDUPLICATION_FALLBACK; default Open
	Lease    time.Duration // default DefaultLease

	// Counted, if set, is told of what happens, by the names Duplicates and
	// Fallbacks.
	Counted func(what string, n int)

	Now     func() time.Time
	Entropy io.Reader // of tokens
	Log     *slog.Logger
}

// What Options.Counted is told.
const (
	Duplicates = "Duplicates"             // calls that were told so
	Fallbacks  = "DeduplicationFallbacks" // calls whose key no marker could be written for
)

// TablePatience is how long a call to the table may take where the open fallback
// can do without it: a table that is down must not use up the request's time.
const TablePatience = 5 * time.Second

// Guard hands out leases on keys.
type Guard struct {
	store  Store
	o      Options
	counts counters
}

// New returns a guard on store, which may be nil: then every key is a case for
// the fallback.
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

// Patience is how long a request may take from its beginning on, so that it never
// outlives the lease that it takes: 28 s unless Options.Lease says otherwise.
func (g *Guard) Patience() time.Duration { return max(g.o.Lease-margin, g.o.Lease/2) }

// Claim is a caller's wish to be the one.
type Claim struct {
	Name        Name
	ID          activity.ID // if it becomes the first
	At          time.Time   // likewise
	Fingerprint string
	// Delay is how much later than now the activity is due: the window of the
	// key starts then.
	Delay time.Duration
	// TTL is the length of the window; 0 is the guard's own.
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

// DuplicateError says that the key has been used, and for which activity.
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

// errNoStore is the cause where no table is configured.
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

// Known reports whether a marker stands for the key. If that cannot be found out,
// nothing does.
func (g *Guard) Known(ctx context.Context, n Name) bool {
	if g.store == nil {
		return false
	}
	ctx, cancel := g.Brief(ctx)
	defer cancel()
	found, err := g.store.FindMarker(ctx, g.o.Prefix+n.Hash())
	if err != nil {
		g.o.Log.DebugContext(ctx, "deduplication markers cannot be read", "error", err)
	}
	return found != nil && found.Expires.After(g.o.Now())
}

// Open reports whether calls go on while the table is down.
func (g *Guard) Open() bool { return g.o.Fallback == Open }

// Brief returns the context of a call to the table: with TablePatience, if the
// fallback is open.
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
		// What its holder has done is not known, so the id stays.
		l.m.ID, l.m.At, l.TakenOver = found.ID, found.At, true
	case Free:
		// It has expired since the store looked.
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

// fallBack decides what becomes of a call whose marker could not be written.
// The write may have happened all the same, so an open fallback goes on under
// the very id and token that it tried to write: whoever takes that marker over
// then repeats this activity instead of making another.
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
	return hex.EncodeToString(b[:]), nil
}
