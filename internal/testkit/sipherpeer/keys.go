package sipherpeer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"testing"

	"golang.org/x/crypto/hkdf"
)

type keys struct {
	signing ed25519.PrivateKey
	secret  *ecdh.PrivateKey
}

func newKeys(tb testing.TB) keys {
	tb.Helper()
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return keys{signing, secret}
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func (k keys) publicKey() string     { return encode(k.signing[32:]) }
func (k keys) encryptionKey() string { return encode(k.secret.PublicKey().Bytes()) }

func (k keys) settings(url string) map[string]string {
	return map[string]string{
		"BETTER_AUTH_URL":                   url,
		"FEDERATION_PUBLIC_KEY":             k.publicKey(),
		"FEDERATION_PRIVATE_KEY":            encode(k.signing),
		"FEDERATION_ENCRYPTION_PUBLIC_KEY":  k.encryptionKey(),
		"FEDERATION_ENCRYPTION_PRIVATE_KEY": encode(k.secret.Bytes()),
	}
}

func (k keys) sign(text string) string { return encode(ed25519.Sign(k.signing, []byte(text))) }

func verify(public, text, signature string) bool {
	p, err := base64.StdEncoding.DecodeString(public)
	if err != nil || len(p) != ed25519.PublicKeySize {
		return false
	}
	s, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && ed25519.Verify(p, []byte(text), s)
}

// sealed is an envelope.
type sealed struct {
	Ephemeral  string `json:"ephemeralPublicKey"`
	IV         string `json:"iv"`
	Ciphertext string `json:"ciphertext"`
	Tag        string `json:"authTag"`
}

// gcm derives the cipher of an envelope from the keys of its two sides.
func gcm(theirs []byte, ours *ecdh.PrivateKey) (cipher.AEAD, error) {
	public, err := ecdh.X25519().NewPublicKey(theirs)
	if err != nil {
		return nil, err
	}
	raw, err := ours.ECDH(public)
	if err != nil {
		return nil, err
	}
	k := make([]byte, 32)
	r := hkdf.New(sha256.New, hsalsa20(raw), []byte("sipher-federation-v1-salt"), []byte("sipher-federation-v1-aes"))
	if _, err := io.ReadFull(r, k); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func seal(recipient, text string) (sealed, error) {
	raw, err := base64.StdEncoding.DecodeString(recipient)
	if err != nil || len(raw) != 32 {
		return sealed{}, errors.New("no encryption key")
	}
	ephemeral, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return sealed{}, err
	}
	aead, err := gcm(raw, ephemeral)
	if err != nil {
		return sealed{}, err
	}
	iv := make([]byte, 12)
	if _, err := rand.Read(iv); err != nil {
		return sealed{}, err
	}
	out := aead.Seal(nil, iv, []byte(text), nil)
	n := len(out) - 16
	return sealed{encode(ephemeral.PublicKey().Bytes()), encode(iv), encode(out[:n]), encode(out[n:])}, nil
}

func (k keys) open(s sealed) (string, error) {
	var parts [4][]byte
	for i, text := range []string{s.Ephemeral, s.IV, s.Ciphertext, s.Tag} {
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return "", err
		}
		parts[i] = b
	}
	if len(parts[0]) != 32 || len(parts[1]) != 12 || len(parts[3]) != 16 {
		return "", errors.New("a part of the envelope has the wrong length")
	}
	aead, err := gcm(parts[0], k.secret)
	if err != nil {
		return "", err
	}
	b, err := aead.Open(nil, parts[1], append(parts[2], parts[3]...), nil)
	return string(b), err
}
