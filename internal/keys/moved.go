package keys

import (
	"context"
	"crypto"
	"fmt"
	"time"
)

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
