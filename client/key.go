package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// NewKey is the body of POST /v1/keys.
type NewKey struct {
	ID   string `json:"id"`
	Type string `json:"type,omitempty"` // rsa (the default) or ed25519
}

// PrivateKey is the body of PUT /v1/keys/{id}. It has one of the two.
type PrivateKey struct {
	PrivateKeyPEM string          `json:"privateKeyPem,omitempty"`
	PrivateKeyJWK json.RawMessage `json:"privateKeyJwk,omitempty"`
}

// Key is the public half of a signing key: all that is ever shown of one.
type Key struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	PublicKeyPEM string `json:"publicKeyPem"`
}

// StoredKey is the answer to PUT /v1/keys/{id}.
type StoredKey struct {
	Key
	// EffectiveBy is when the last process signs with this key in place of the one before.
	EffectiveBy time.Time `json:"effectiveBy"`
}

// Keys is a page of keys.
type Keys struct {
	Keys       []Key  `json:"keys"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// DeletedKey is the answer to DELETE /v1/keys/{id}.
type DeletedKey struct {
	ID string `json:"id"`
	// Waiting counts the deliveries that wait to be sent and needed the key; AtLeast is
	// true if there may be more.
	Waiting int  `json:"waiting"`
	AtLeast bool `json:"atLeast,omitempty"`
	// EffectiveBy is when no process accepts activities for the key any more.
	EffectiveBy time.Time `json:"effectiveBy"`
}

func keyPath(id string) string { return "/v1/keys/" + url.PathEscape(id) }

// Keys lists the public halves of all keys, by id; limit of them at most (0: all).
func (c *Client) Keys(ctx context.Context, limit int) iter.Seq2[Key, error] {
	return pages[Key](ctx, c, "/v1/keys", url.Values{}, "keys", limit, 1000)
}

// GenerateKey makes a key, whose private half never leaves fedpost. kind is rsa, which every
// server verifies, or ed25519; empty: rsa. If there is a key of this id, the answer is 409.
func (c *Client) GenerateKey(ctx context.Context, id, kind string) (Key, error) {
	return send[Key](ctx, c, request{method: http.MethodPost, path: "/v1/keys", in: NewKey{ID: id, Type: kind}})
}

// Key returns the public half of a key.
func (c *Client) Key(ctx context.Context, id string) (Key, error) {
	return get[Key](ctx, c, keyPath(id), nil)
}

// PutKey stores a private key, in PEM without a passphrase or as a JWK, in place of the one of
// this id if there is one.
func (c *Client) PutKey(ctx context.Context, id, private string) (StoredKey, error) {
	in := PrivateKey{PrivateKeyPEM: private}
	if jwk := json.RawMessage(private); json.Valid(jwk) {
		in = PrivateKey{PrivateKeyJWK: jwk}
	}
	return send[StoredKey](ctx, c, request{method: http.MethodPut, path: keyPath(id), in: in, harmless: true})
}

// DeleteKey deletes a key for good. While deliveries need it, the answer is 409 unless force
// is true: then they fail.
func (c *Client) DeleteKey(ctx context.Context, id string, force bool) (DeletedKey, error) {
	return send[DeletedKey](ctx, c, request{method: http.MethodDelete, path: keyPath(id), query: queryOf("force", trueOf(force))})
}
