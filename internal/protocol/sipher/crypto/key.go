// Package crypto is the cryptography of the Sipher protocol: how keys and signatures are written, how
// one server seals a text to another, and our own identity, which signs and opens.
//
// Keys and signatures are padded standard base64. Other servers also use the url-safe alphabet and
// leave padding away, so Decode accepts these two deviations and no other.
//
// An envelope is sealed with X25519 to the recipient's public key, NaCl's HSalsa20 step
// (box.Precompute), HKDF-SHA256 and AES-256-GCM. Without the HSalsa20 step a program understands only
// itself, so tests compare this package with vectors from elsewhere.
//
// An identity is one origin, one Ed25519 pair and one X25519 pair. The protocol has no key ids and no
// expiry, and other servers pin the keys that they see first, so every setting is checked before
// anything is sent. A process that only answers strangers gets a Public, without private halves.
package crypto

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the length in bytes of the public keys and of the X25519 secret.
const KeySize = 32

var ErrEncoding = errors.New("not base64")

// ErrLength says that a key decodes to the wrong number of bytes.
var ErrLength = errors.New("wrong length")

// Encode writes bytes as padded standard base64.
func Encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// Decode reads base64 in the standard or url-safe alphabet, padded or not. Its error wraps ErrEncoding
// and does not repeat the text, which may be a private key.
func Decode(s string) ([]byte, error) {
	// The library skips line breaks, so two different texts would decode to one key.
	if strings.ContainsAny(s, "\r\n") {
		return nil, fmt.Errorf("%w: line break inside", ErrEncoding)
	}
	std := strings.NewReplacer("-", "+", "_", "/").Replace(s)
	enc := base64.RawStdEncoding.Strict()
	if strings.HasSuffix(std, "=") {
		enc = base64.StdEncoding.Strict()
	}
	b, err := enc.DecodeString(std)
	if err != nil {
		return nil, ErrEncoding
	}
	return b, nil
}

// DecodeSize is Decode for a key of size bytes. Its error wraps ErrEncoding or ErrLength.
func DecodeSize(s string, size int) ([]byte, error) {
	b, err := Decode(s)
	if err != nil {
		return nil, err
	}
	if len(b) != size {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrLength, len(b), size)
	}
	return b, nil
}

// Same reports whether two texts stand for the same key; texts that are no keys have to be equal.
func Same(a, b string) bool {
	x, errA := Decode(a)
	y, errB := Decode(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return string(x) == string(y)
}

// Fingerprint names a key for people: the lower-case hex SHA-256 of its bytes, or of the text if that
// is no base64.
func Fingerprint(s string) string {
	b, err := Decode(s)
	if err != nil {
		b = []byte(s)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Sign returns the detached Ed25519 signature of a plaintext in base64. The signature covers the
// plaintext's bytes, so the payload must never be re-serialised.
func Sign(secret ed25519.PrivateKey, plaintext string) string {
	return Encode(ed25519.Sign(secret, []byte(plaintext)))
}

// Verify reports whether signature is public's signature of plaintext. A malformed key or signature does
// not verify.
func Verify(public, plaintext, signature string) bool {
	p, errP := DecodeSize(public, ed25519.PublicKeySize)
	s, errS := DecodeSize(signature, ed25519.SignatureSize)
	return errP == nil && errS == nil && ed25519.Verify(p, []byte(plaintext), s)
}
