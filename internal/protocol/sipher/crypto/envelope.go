package crypto

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/nacl/box"
)

const (
	salt = "sipher-federation-v1-salt"
	info = "sipher-federation-v1-aes"

	ivSize  = 12
	tagSize = 16
)

// Envelope is a sealed plaintext. All fields are base64; their order is the protocol's.
type Envelope struct {
	EphemeralPublicKey string `json:"ephemeralPublicKey"`
	IV                 string `json:"iv"`
	Ciphertext         string `json:"ciphertext"`
	AuthTag            string `json:"authTag"`
}

// ErrRecipient says that the recipient's public key cannot be sealed to.
var ErrRecipient = errors.New("unusable encryption key")

// ErrOpen says that an envelope cannot be opened: it is malformed, meant for somebody else, or altered.
// Callers cannot tell these cases apart, on purpose.
var ErrOpen = errors.New("envelope does not open")

// Seal encrypts plaintext to the X25519 public key of its recipient. It reads 44 bytes of entropy: the
// ephemeral secret, then the IV. The error wraps ErrRecipient if the key is at fault.
func Seal(entropy io.Reader, recipient []byte, plaintext string) (Envelope, error) {
	public, err := ecdh.X25519().NewPublicKey(recipient)
	if err != nil {
		return Envelope{}, fmt.Errorf("%w: %d bytes instead of %d", ErrRecipient, len(recipient), KeySize)
	}
	// Read here, because the library's key generation ignores the reader that it gets, and the test
	// vectors need fixed entropy.
	var random [KeySize + ivSize]byte
	if _, err := io.ReadFull(entropy, random[:]); err != nil {
		return Envelope{}, fmt.Errorf("read entropy for an envelope: %w", err)
	}
	ephemeral, err := ecdh.X25519().NewPrivateKey(random[:KeySize])
	if err != nil {
		return Envelope{}, fmt.Errorf("make an ephemeral key: %w", err)
	}
	aead, err := cipherFor(ephemeral, public)
	if err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrRecipient, err)
	}
	iv := random[KeySize:]
	sealed := aead.Seal(nil, iv, []byte(plaintext), nil)
	end := len(sealed) - tagSize
	return Envelope{
		EphemeralPublicKey: Encode(ephemeral.PublicKey().Bytes()),
		IV:                 Encode(iv),
		Ciphertext:         Encode(sealed[:end]),
		AuthTag:            Encode(sealed[end:]),
	}, nil
}

// Open decrypts an envelope with the recipient's X25519 secret. Every error wraps ErrOpen.
func Open(secret []byte, e Envelope) (string, error) {
	private, err := ecdh.X25519().NewPrivateKey(secret)
	if err != nil {
		return "", fmt.Errorf("%w: our own secret is malformed", ErrOpen)
	}
	ephemeral, err := DecodeSize(e.EphemeralPublicKey, KeySize)
	if err != nil {
		return "", fmt.Errorf("%w: ephemeralPublicKey: %w", ErrOpen, err)
	}
	// X25519 ignores the top bit. No honest sender sets it, so each envelope has one spelling.
	if ephemeral[KeySize-1]&0x80 != 0 {
		return "", fmt.Errorf("%w: ephemeralPublicKey is not canonical", ErrOpen)
	}
	iv, err := DecodeSize(e.IV, ivSize)
	if err != nil {
		return "", fmt.Errorf("%w: iv: %w", ErrOpen, err)
	}
	tag, err := DecodeSize(e.AuthTag, tagSize)
	if err != nil {
		return "", fmt.Errorf("%w: authTag: %w", ErrOpen, err)
	}
	ciphertext, err := Decode(e.Ciphertext)
	if err != nil {
		return "", fmt.Errorf("%w: ciphertext: %w", ErrOpen, err)
	}
	public, err := ecdh.X25519().NewPublicKey(ephemeral)
	if err != nil {
		return "", fmt.Errorf("%w: ephemeralPublicKey: %w", ErrOpen, err)
	}
	aead, err := cipherFor(private, public)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOpen, err)
	}
	plaintext, err := aead.Open(nil, iv, append(ciphertext, tag...), nil)
	if err != nil {
		return "", fmt.Errorf("%w: not for this key, or altered", ErrOpen)
	}
	return string(plaintext), nil
}

// cipherFor derives the content key that both sides share. It fails on low-order points, with which
// anybody could know the key.
func cipherFor(secret *ecdh.PrivateKey, public *ecdh.PublicKey) (cipher.AEAD, error) {
	// NaCl silently agrees on a key with such points too; X25519 returns an error.
	if _, err := secret.ECDH(public); err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	k, err := contentKey((*[KeySize]byte)(secret.Bytes()), (*[KeySize]byte)(public.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("derive the content key: %w", err)
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, fmt.Errorf("content cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// contentKey takes pointers: the trace of a panic prints arrays that are passed by value.
func contentKey(secret, public *[KeySize]byte) ([]byte, error) {
	var shared [KeySize]byte
	box.Precompute(&shared, public, secret)
	return hkdf.Key(sha256.New, shared[:], []byte(salt), info, 32)
}
