package contract

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
