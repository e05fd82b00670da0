package crypto

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
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

// SettingFault is what is wrong with one setting. It never repeats the value.
type SettingFault struct {
	Setting string
	Problem string
}

func (f *SettingFault) Error() string { return f.Setting + ": " + f.Problem }

// LoadIdentity reads the identity from the environment. The error joins all faults, each a
// *SettingFault. The keys may all be absent: such a server speaks no Sipher (see Identity.Ready).
func LoadIdentity(getenv func(string) string) (Identity, error) {
	l := loader{getenv: getenv}
	id := Identity{Public: Public{Origin: l.origin()}}
	if l.any(SettingPublicKey, SettingPrivateKey, SettingEncryptionKey, SettingEncryptionPrivate) {
		var signing ed25519.PrivateKey
		var encryption []byte
		id.PublicKey, signing = l.signing()
		id.EncryptionKey, encryption = l.encryption()
		id.private = newPrivate(signing, encryption)
	}
	if len(l.faults) > 0 {
		return Identity{}, errors.Join(l.faults...)
	}
	return id, nil
}

// LoadPublic is LoadIdentity for the public part. It does not read the private keys, so it cannot check
// that they belong together.
func LoadPublic(getenv func(string) string) (Public, error) {
	l := loader{getenv: getenv}
	p := Public{Origin: l.origin()}
	if l.any(SettingPublicKey, SettingEncryptionKey) {
		p.PublicKey, p.EncryptionKey = Encode(l.publicKey()), Encode(l.encryptionKey())
	}
	if len(l.faults) > 0 {
		return Public{}, errors.Join(l.faults...)
	}
	return p, nil
}

type loader struct {
	getenv func(string) string
	faults []error
}

func (l *loader) fault(setting, problem string, args ...any) {
	l.faults = append(l.faults, &SettingFault{setting, fmt.Sprintf(problem, args...)})
}

func (l *loader) get(setting string) string { return strings.TrimSpace(l.getenv(setting)) }

func (l *loader) any(settings ...string) bool {
	return slices.ContainsFunc(settings, func(s string) bool { return l.get(s) != "" })
}

func (l *loader) origin() string {
	s := l.get(SettingOrigin)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		l.fault(SettingOrigin, "must be this server's own origin, such as https://example.org")
	case strings.HasSuffix(s, "/"):
		l.fault(SettingOrigin, "remove the trailing slash: peers compare this text exactly")
	case u.User != nil, u.Path != "", u.RawQuery != "", u.Fragment != "":
		l.fault(SettingOrigin, "must be an origin only: scheme, host and perhaps port")
	}
	return s
}

func (l *loader) bytes(setting string, size int, layout string) []byte {
	s := l.get(setting)
	if s == "" {
		l.fault(setting, "is missing while other FEDERATION_ keys are set")
		return nil
	}
	b, err := DecodeSize(s, size)
	if err != nil {
		l.fault(setting, "must be %s in base64: %s", layout, err)
		return nil
	}
	return b
}

func (l *loader) publicKey() []byte {
	return l.bytes(SettingPublicKey, ed25519.PublicKeySize, "the 32-byte Ed25519 public key")
}

func (l *loader) encryptionKey() []byte {
	return l.bytes(SettingEncryptionKey, KeySize, "the 32-byte X25519 public key")
}

func (l *loader) signing() (string, ed25519.PrivateKey) {
	public := l.publicKey()
	private := l.bytes(SettingPrivateKey, ed25519.PrivateKeySize, "the 64-byte Ed25519 private key (seed, then public key)")
	if public == nil || private == nil {
		return "", nil
	}
	derived := ed25519.NewKeyFromSeed(private[:ed25519.SeedSize])
	if !bytes.Equal(derived, private) {
		l.fault(SettingPrivateKey, "its second half is not the public key of its first half")
		return "", nil
	}
	if !bytes.Equal(derived.Public().(ed25519.PublicKey), public) {
		l.fault(SettingPublicKey, "does not belong to %s", SettingPrivateKey)
		return "", nil
	}
	return Encode(public), derived
}

func (l *loader) encryption() (string, []byte) {
	public := l.encryptionKey()
	secret := l.bytes(SettingEncryptionPrivate, KeySize, "the 32-byte X25519 secret key")
	if public == nil || secret == nil {
		return "", nil
	}
	private, err := ecdh.X25519().NewPrivateKey(secret)
	if err != nil {
		l.fault(SettingEncryptionPrivate, "is not usable: %s", err)
		return "", nil
	}
	if !bytes.Equal(private.PublicKey().Bytes(), public) {
		l.fault(SettingEncryptionKey, "does not belong to %s", SettingEncryptionPrivate)
		return "", nil
	}
	return Encode(public), secret
}

// Setting is one environment variable of an identity.
type Setting struct{ Name, Value string }

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
		{Name: SettingPrivateKey, Value: Encode(signing)},
		{Name: SettingEncryptionKey, Value: Encode(secret.PublicKey().Bytes())},
		{Name: SettingEncryptionPrivate, Value: Encode(secret.Bytes())},
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
