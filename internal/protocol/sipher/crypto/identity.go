package crypto

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"fedpost/internal/activity"
)

// The settings of an identity. Sipher servers use the same names, so a server and its fedpost can share
// one environment.
const (
	SettingOrigin            = "BETTER_AUTH_URL"
	SettingPublicKey         = "FEDERATION_PUBLIC_KEY"
	SettingPrivateKey        = "FEDERATION_PRIVATE_KEY"
	SettingEncryptionKey     = "FEDERATION_ENCRYPTION_PUBLIC_KEY"
	SettingEncryptionPrivate = "FEDERATION_ENCRYPTION_PRIVATE_KEY"
)

// Public is what everybody may know of a server's own identity.
type Public struct {
	// Origin is our own origin without trailing slash, under which other servers register us; empty
	// if not configured.
	Origin string
	// PublicKey and EncryptionKey are the public halves, as base64.
	PublicKey, EncryptionKey string
}

// Identity is a server's own identity. The zero value is an identity without settings.
type Identity struct {
	Public

	private *private
}

// private holds the private halves in closures: fmt prints unexported fields without asking for a
// String method, but only the address of a function.
type private struct {
	sign func(plaintext string) string
	open func(Envelope) (string, error)
}

func newPrivate(signing ed25519.PrivateKey, encryption []byte) *private {
	return &private{
		sign: func(plaintext string) string { return Sign(signing, plaintext) },
		open: func(e Envelope) (string, error) { return Open(encryption, e) },
	}
}

// ErrNotConfigured says that required settings of the identity are missing.
var ErrNotConfigured = errors.New("sipher identity is not configured")

// Ready returns nil if p is complete enough for GET /discover, else an error that wraps
// ErrNotConfigured and names the missing settings.
func (p Public) Ready() error { return notConfigured(p.missing()) }

// Is reports whether a server's URL is our own origin, in whatever spelling.
func (p Public) Is(server string) bool {
	return activity.ServerName(server) == activity.ServerName(p.Origin)
}

func (p Public) missing() []string {
	var missing []string
	for _, s := range []Setting{
		{Name: SettingOrigin, Value: p.Origin}, {Name: SettingPublicKey, Value: p.PublicKey}, {Name: SettingEncryptionKey, Value: p.EncryptionKey},
	} {
		if s.Value == "" {
			missing = append(missing, s.Name)
		}
	}
	return missing
}

// HasKeys reports whether both key pairs are there.
func (id Identity) HasKeys() bool { return id.private != nil }

// Ready returns nil if id can send and be discovered, else an error that wraps ErrNotConfigured and
// names the missing settings.
func (id Identity) Ready() error {
	missing := id.missing()
	if !id.HasKeys() {
		missing = append(missing, SettingPrivateKey, SettingEncryptionPrivate)
	}
	return notConfigured(missing)
}

func notConfigured(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: set %s", ErrNotConfigured, strings.Join(missing, ", "))
}

// Sign returns our signature of plaintext, as base64. It needs HasKeys.
func (id Identity) Sign(plaintext string) string { return id.private.sign(plaintext) }

// Open decrypts an envelope that was sealed to us. It needs HasKeys. Its error wraps ErrOpen.
func (id Identity) Open(e Envelope) (string, error) { return id.private.open(e) }

// String shows the public part only.
func (id Identity) String() string {
	if !id.HasKeys() {
		return fmt.Sprintf("sipher identity %q without keys", id.Origin)
	}
	return fmt.Sprintf("sipher identity %q, signing key %s", id.Origin, Fingerprint(id.PublicKey))
}

// GoString keeps %#v from printing the private fields.
func (id Identity) GoString() string { return id.String() }

func (id Identity) LogValue() slog.Value { return slog.StringValue(id.String()) }
