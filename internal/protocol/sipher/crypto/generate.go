package crypto

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"io"
)

// Setting is one environment variable of an identity.
type Setting struct {
	Name, Value string
	// Secret: only this server may read the value.
	Secret bool
}

// Settings are the variables of one identity, in the order they are shown.
type Settings []Setting

// GenerateIdentity makes a new identity for origin with 64 bytes of entropy. Only it hands out private
// keys, for the operator to store.
func GenerateIdentity(entropy io.Reader, origin string) (Settings, error) {
	var random [ed25519.SeedSize + KeySize]byte
	if _, err := io.ReadFull(entropy, random[:]); err != nil {
		return nil, fmt.Errorf("read entropy for a new identity: %w", err)
	}
	signing := ed25519.NewKeyFromSeed(random[:ed25519.SeedSize])
	secret, err := ecdh.X25519().NewPrivateKey(random[ed25519.SeedSize:])
	if err != nil {
		return nil, fmt.Errorf("make an encryption key: %w", err)
	}
	s := Settings{
		{Name: SettingOrigin, Value: origin},
		{Name: SettingPublicKey, Value: Encode(signing.Public().(ed25519.PublicKey))},
		{Name: SettingPrivateKey, Value: Encode(signing), Secret: true},
		{Name: SettingEncryptionKey, Value: Encode(secret.PublicKey().Bytes())},
		{Name: SettingEncryptionPrivate, Value: Encode(secret.Bytes()), Secret: true},
	}
	// LoadIdentity refuses a bad origin.
	if _, err := LoadIdentity(s.Get); err != nil {
		return nil, err
	}
	return s, nil
}

// Get returns a setting's value, as os.Getenv would.
func (s Settings) Get(name string) string {
	for _, v := range s {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// WriteTo prints the settings, private keys included, as lines of an environment file.
func (s Settings) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, v := range s {
		n, err := fmt.Fprintf(w, "%s=%s\n", v.Name, v.Value)
		total += int64(n)
		if err != nil {
			return total, fmt.Errorf("print settings: %w", err)
		}
	}
	return total, nil
}
