package fediverse

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync"

	"fedpost/internal/keys"
)

// Keys is an activitypub.KeySource of made-up keys.
type Keys map[string]crypto.Signer

// SigningKey implements activitypub.KeySource.
func (k Keys) SigningKey(_ context.Context, id string) (crypto.Signer, error) {
	if key, ok := k[id]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("%w: %s", keys.ErrNotFound, id)
}

// Doubt implements activitypub.KeySource.
func (Keys) Doubt(string) {}

// Public returns the public keys, for NewInbox.
func (k Keys) Public() map[string]crypto.PublicKey {
	public := make(map[string]crypto.PublicKey, len(k))
	for id, key := range k {
		public[id] = key.Public()
	}
	return public
}

// The ids of the keys of NewKeys.
const (
	RSAKeyID     = "https://mastodon.example/users/Zoe#main-key"
	Ed25519KeyID = "https://mastodon.example/users/Zoe#ed25519-key"
)

// NewKeys returns an RSA and an Ed25519 key, the same ones in one process as
// making an RSA key takes a while.
var NewKeys = sync.OnceValue(func() Keys {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	_, e, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return Keys{RSAKeyID: r, Ed25519KeyID: e}
})
