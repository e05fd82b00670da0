package crypto

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

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
