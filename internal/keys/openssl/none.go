//go:build static || !linux || !(amd64 || arm64)

package openssl

import (
	"crypto"
	"crypto/rsa"
	"fmt"
)

// Library is OpenSSL's libcrypto, of which this build has none.
type Library struct{}

// Open returns ErrUnavailable.
func Open() (*Library, error) {
	return nil, fmt.Errorf("%w: this fedpost is static, or not for Linux on amd64 or arm64", ErrUnavailable)
}

// Signer returns ErrUnavailable.
func (*Library) Signer(*rsa.PrivateKey) (crypto.Signer, error) { return nil, ErrUnavailable }

// Version is empty.
func (*Library) Version() string { return "" }
