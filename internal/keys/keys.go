// Package keys keeps the private keys that activities are signed with.
//
// A private key is sealed before it is stored, and opened only in the memory of a process that signs. The
// API shows public halves only; the one exception is Reveal, for an operator who moves to another
// installation. Messages name a key by its id, so no queue and no log can leak it.
package keys

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
)

// Type is a key's algorithm.
type Type string

// The types that fediverse software verifies: RSA everywhere, Ed25519 only by RFC 9421.
const (
	RSA     Type = "rsa"
	Ed25519 Type = "ed25519"
)

// MaxID is the longest id of a key, in bytes.
const MaxID = 1024

// Sealed is a key as it is stored.
type Sealed struct {
	ID        string    `json:"-"`
	Type      Type      `json:"type"`
	PublicPEM string    `json:"public"`
	Private   []byte    `json:"sealed"`
	CreatedAt time.Time `json:"created"`
}

// Public is all of a key that may be shown.
type Public struct {
	ID        string
	Type      Type
	PublicPEM string
}

// Errors of a Ring.
var (
	// ErrNotFound: no key of that id.
	ErrNotFound = errors.New("no such key")
	// ErrExists: a key of that id exists, and a new one would invalidate what its actor has published.
	ErrExists = errors.New("key exists")
	// ErrBadKey: the text is not a private key that fedpost can use.
	ErrBadKey = errors.New("unusable private key")
	// ErrBadID: the text cannot be a key's id; see CheckID.
	ErrBadID = errors.New("unusable key id")
	// ErrBadCursor: the cursor was not returned by ListKeys.
	ErrBadCursor = errors.New("no such cursor")
)

// Store keeps sealed keys.
type Store interface {
	// PutKey stores k. Without replace it returns ErrExists if the id is taken.
	PutKey(ctx context.Context, k Sealed, replace bool) error
	// Key returns a key, or ErrNotFound.
	Key(ctx context.Context, id string) (Sealed, error)
	// ListKeys returns up to limit public halves by id, after a cursor; next is empty on the last page.
	// The error wraps ErrBadCursor.
	ListKeys(ctx context.Context, cursor string, limit int) (ks []Public, next string, err error)
	// DeleteKey removes both halves of a key at once. Deleting a missing key is no error.
	DeleteKey(ctx context.Context, id string) error
	// PublicKey returns the public half of a key, or ErrNotFound. It reads nothing sealed.
	PublicKey(ctx context.Context, id string) (Public, error)
}

// Sealer encrypts private keys at rest. A key that was sealed for one id does not open for another, so
// nobody can store one actor's key under another actor's id.
type Sealer interface {
	Seal(ctx context.Context, keyID string, plaintext []byte) ([]byte, error)
	Open(ctx context.Context, keyID string, sealed []byte) ([]byte, error)
}

// Options of a Ring.
type Options struct {
	// CacheSize is how many opened keys are held in memory; default 256.
	CacheSize int
	// CacheTTL is how long an opened key is held; default 5 minutes. Then it is opened again: with KMS a
	// call that costs, and that an operator can forbid.
	CacheTTL time.Duration
	// Recheck is how often a Ring looks whether another process has replaced a key in use; default 5
	// seconds.
	Recheck time.Duration
	// Faster, if set, returns a signer that signs like an opened key in less time, or the key itself.
	Faster func(crypto.Signer) crypto.Signer

	Now func() time.Time
}

// Ring is the keys of one deployment. It is safe for concurrent use.
type Ring struct {
	store  Store
	sealer Sealer
	o      Options
	opened *cache[held]
	known  *cache[Public]
	flight singleflight.Group
}

type held struct {
	signer crypto.Signer
	// sealed is the stored form of the key; checked is when the store was last seen to have it.
	sealed  []byte
	checked time.Time
}

func New(store Store, sealer Sealer, o Options) *Ring {
	o.CacheSize = cmp.Or(o.CacheSize, 256)
	o.CacheTTL = cmp.Or(o.CacheTTL, 5*time.Minute)
	o.Recheck = cmp.Or(o.Recheck, 5*time.Second)
	return &Ring{
		store: store, sealer: sealer, o: o,
		opened: newCache[held](o.CacheSize, o.CacheTTL, o.Now),
		known:  newCache[Public](16*o.CacheSize, min(o.CacheTTL, Everywhere), o.Now),
	}
}

// Put stores a private key, in PEM or as a JWK, under id, and replaces one that is there. Its error wraps
// ErrBadKey or ErrBadID if an argument is wrong.
func (r *Ring) Put(ctx context.Context, id, text string) (Public, error) {
	if err := CheckID(id); err != nil {
		return Public{}, err
	}
	signer, err := Parse(text)
	if err != nil {
		return Public{}, err
	}
	return r.keep(ctx, id, signer, r.o.Now(), true)
}

// Generate makes and stores a new key under id. Its error wraps ErrExists if there is one.
func (r *Ring) Generate(ctx context.Context, id string, t Type) (Public, error) {
	if err := CheckID(id); err != nil {
		return Public{}, err
	}
	signer, err := generate(t)
	if err != nil {
		return Public{}, err
	}
	return r.keep(ctx, id, signer, r.o.Now(), false)
}

// Public returns the public half of a key, or ErrNotFound.
func (r *Ring) Public(ctx context.Context, id string) (Public, error) {
	k, err := r.store.PublicKey(ctx, id)
	if err != nil {
		return Public{}, fmt.Errorf("key %s: %w", id, err)
	}
	return k, nil
}

// Everywhere is how long after Put or Delete the last process notices it, if the store can be reached.
const Everywhere = time.Minute

// List returns up to limit public halves by id, after a cursor; see Store.
func (r *Ring) List(ctx context.Context, cursor string, limit int) ([]Public, string, error) {
	ks, next, err := r.store.ListKeys(ctx, cursor, limit)
	if err != nil {
		return nil, "", fmt.Errorf("list keys: %w", err)
	}
	return ks, next, nil
}

// Delete removes a key for good, or returns ErrNotFound. Other processes sign with it for
// Options.Recheck, and accept activities for it for up to Everywhere.
func (r *Ring) Delete(ctx context.Context, id string) error {
	if err := CheckID(id); err != nil {
		return err
	}
	if _, err := r.Public(ctx, id); err != nil {
		return err
	}
	if err := r.store.DeleteKey(ctx, id); err != nil {
		return fmt.Errorf("delete key %s: %w", id, err)
	}
	r.opened.drop(id)
	r.known.drop(id)
	return nil
}

// Known reports whether there is a key of that id. True is cached, false is not.
func (r *Ring) Known(ctx context.Context, id string) (bool, error) {
	if CheckID(id) != nil {
		return false, nil
	}
	if _, ok := r.known.get(id); ok {
		return true, nil
	}
	generation := r.known.generation()
	p, err := r.Public(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	r.known.put(id, p, generation)
	return true, nil
}

// SigningKey returns the private key of that id, or ErrNotFound. It is opened once and held in memory for
// CacheTTL. A key that another process has replaced or removed is noticed after Recheck, or at once after
// Doubt. If the store cannot be reached, the key that is held is used.
func (r *Ring) SigningKey(ctx context.Context, id string) (crypto.Signer, error) {
	if h, ok := r.opened.get(id); ok && r.o.Now().Sub(h.checked).Abs() < r.o.Recheck {
		return h.signer, nil
	}
	// The first caller's cancellation must not fail the others.
	shared := context.WithoutCancel(ctx)
	ch := r.flight.DoChan(id, func() (any, error) { return r.load(shared, id) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case res := <-ch:
		if res.Err != nil {
			return nil, res.Err
		}
		return res.Val.(crypto.Signer), nil
	}
}

// Doubt makes the next SigningKey of that id read the store, because a server's answer suggests that the
// actor publishes another key.
func (r *Ring) Doubt(id string) {
	r.opened.update(id, func(h *held) { h.checked = time.Time{} })
}

func (r *Ring) load(ctx context.Context, id string) (crypto.Signer, error) {
	generation, now := r.opened.generation(), r.o.Now()
	h, known := r.opened.get(id)
	k, err := r.store.Key(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		r.opened.drop(id)
		return nil, fmt.Errorf("key %s: %w", id, err)
	case err != nil && known, err == nil && known && bytes.Equal(k.Private, h.sealed):
		r.opened.update(id, func(h *held) { h.checked = now })
		return h.signer, nil
	case err != nil:
		return nil, fmt.Errorf("key %s: %w", id, err)
	}
	der, err := r.sealer.Open(ctx, id, k.Private)
	if err != nil {
		return nil, fmt.Errorf("open key %s: %w", id, err)
	}
	defer clear(der)
	signer, err := fromDER(der)
	if err != nil {
		return nil, fmt.Errorf("open key %s: %w", id, err)
	}
	if r.o.Faster != nil {
		signer = r.o.Faster(signer)
	}
	r.opened.put(id, held{signer: signer, sealed: k.Private, checked: now}, generation)
	return signer, nil
}

// keep seals and stores signer under id.
func (r *Ring) keep(ctx context.Context, id string, signer crypto.Signer, created time.Time, replace bool) (Public, error) {
	p, err := public(id, signer)
	if err != nil {
		return Public{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return Public{}, fmt.Errorf("encode key %s: %w", id, err)
	}
	defer clear(der)
	sealed, err := r.sealer.Seal(ctx, id, der)
	if err != nil {
		return Public{}, fmt.Errorf("seal key %s: %w", id, err)
	}
	k := Sealed{ID: id, Type: p.Type, PublicPEM: p.PublicPEM, Private: sealed, CreatedAt: created.UTC()}
	if err := r.store.PutKey(ctx, k, replace); err != nil {
		return Public{}, fmt.Errorf("store key %s: %w", id, err)
	}
	r.opened.drop(id)
	return p, nil
}

// Moved is a key with its private half, to be sealed anew in another installation.
type Moved struct {
	ID            string    `json:"id"`
	PrivateKeyPEM string    `json:"privateKeyPem"`
	CreatedAt     time.Time `json:"created"`
}

// Reveal opens a key, to move it to another installation, or returns ErrNotFound. Only package move, which
// no server links, calls it, for an operator with access to the store and the sealer; a test checks that.
func Reveal(ctx context.Context, store Store, sealer Sealer, id string) (Moved, error) {
	k, err := store.Key(ctx, id)
	if err != nil {
		return Moved{}, fmt.Errorf("key %s: %w", id, err)
	}
	der, err := sealer.Open(ctx, id, k.Private)
	if err != nil {
		return Moved{}, fmt.Errorf("open key %s: %w", id, err)
	}
	defer clear(der)
	return Moved{ID: id, PrivateKeyPEM: privatePEM(der), CreatedAt: k.CreatedAt}, nil
}

func (m Moved) signer() (crypto.Signer, error) {
	if err := CheckID(m.ID); err != nil {
		return nil, err
	}
	signer, err := Parse(m.PrivateKeyPEM)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", m.ID, err)
	}
	return signer, nil
}

// Public checks m and returns its public half. The error wraps ErrBadID or ErrBadKey.
func (m Moved) Public() (Public, error) {
	signer, err := m.signer()
	if err != nil {
		return Public{}, err
	}
	return public(m.ID, signer)
}

// Take stores a key of another installation. If there is one of that id and replace is false, the error
// wraps ErrExists.
func (r *Ring) Take(ctx context.Context, m Moved, replace bool) error {
	signer, err := m.signer()
	if err != nil {
		return err
	}
	_, err = r.keep(ctx, m.ID, signer, m.CreatedAt, replace)
	return err
}
