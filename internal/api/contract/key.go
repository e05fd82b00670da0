package contract

import "time"

// NewKey is the body of POST /v1/keys.
type NewKey struct {
	ID   string `json:"id"`
	Type string `json:"type,omitempty"` // rsa (the default) or ed25519
}

// PrivateKey is the body of PUT /v1/keys/{id}.
type PrivateKey struct {
	PrivateKeyPEM string `json:"privateKeyPem"`
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
	// EffectiveBy is when the last process accepts nothing for the key any more.
	EffectiveBy time.Time `json:"effectiveBy"`
}
