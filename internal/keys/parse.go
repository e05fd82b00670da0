package keys

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"
)

// Sizes of RSA keys in bits. Servers refuse keys below 2048. Above 4096 a key would not fit one KMS
// request, and a signature would cost tens of milliseconds.
const (
	MinRSA     = 2048
	MaxRSA     = 4096
	defaultRSA = 2048 // what fediverse software makes; each signature by a larger key costs more
)

// MaxText is the longest text of a key that is read, in bytes.
const MaxText = 32 << 10

// Parse reads a private key from PEM, RSA as PKCS#1 or PKCS#8 and Ed25519 as PKCS#8, or from a JWK (RFC
// 7517, RFC 8037). Its error wraps ErrBadKey and says what to do, but nothing of the key.
func Parse(text string) (crypto.Signer, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrBadKey, MaxText)
	}
	if IsJWK(text) {
		return fromJWK(text)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, fmt.Errorf("%w: no PEM block found: it begins with a line like -----BEGIN PRIVATE KEY-----", ErrBadKey)
	}
	defer clear(block.Bytes)
	if block.Headers["DEK-Info"] != "" || block.Type == "ENCRYPTED PRIVATE KEY" {
		return nil, fmt.Errorf("%w: it is encrypted with a passphrase: remove that first (openssl pkey)", ErrBadKey)
	}
	switch block.Type {
	case "PRIVATE KEY":
		return fromDER(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: the PKCS#1 content does not parse as a valid RSA key", ErrBadKey)
		}
		return checked(key)
	case "PUBLIC KEY", "RSA PUBLIC KEY", "CERTIFICATE":
		return nil, fmt.Errorf("%w: this is a %s; the private key is needed to sign", ErrBadKey, block.Type)
	case "OPENSSH PRIVATE KEY":
		return nil, fmt.Errorf("%w: this is OpenSSH's own format: convert it to PKCS#8 first (ssh-keygen -p -m PKCS8)", ErrBadKey)
	}
	return nil, fmt.Errorf("%w: PEM type is not PRIVATE KEY (PKCS#8) or RSA PRIVATE KEY (PKCS#1)", ErrBadKey)
}

// IsJWK reports whether a text is a JWK rather than PEM.
func IsJWK(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// jwk has the members of a private JWK that count (RFC 7518, section 6.3, and RFC 8037).
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   octets `json:"x"`
	D   octets `json:"d"`
	N   octets `json:"n"`
	E   octets `json:"e"`
	P   octets `json:"p"`
	Q   octets `json:"q"`
	Oth []any  `json:"oth"`
}

// octets are base64url without padding.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = base64.RawURLEncoding.DecodeString(string(text))
	return err
}

func fromJWK(text string) (crypto.Signer, error) {
	unusable := fmt.Errorf("%w: it does not parse as a JWK of an RSA or Ed25519 key", ErrBadKey)
	var k jwk
	// The error is left out: it may quote the key.
	if json.Unmarshal([]byte(text), &k) != nil {
		return nil, unusable
	}
	ed := k.Kty == "OKP" && k.Crv == "Ed25519"
	if !ed && k.Kty != "RSA" {
		return nil, errType
	}
	if k.D == nil {
		return nil, fmt.Errorf("%w: this is a public key; the private key, with the member d, is needed to sign", ErrBadKey)
	}
	defer clear(k.D)
	if ed {
		if len(k.D) != ed25519.SeedSize {
			return nil, unusable
		}
		key := ed25519.NewKeyFromSeed(k.D)
		if !bytes.Equal(key.Public().(ed25519.PublicKey), k.X) {
			return nil, fmt.Errorf("%w: x is not the public half of d", ErrBadKey)
		}
		return key, nil
	}
	number := func(o octets) *big.Int { return new(big.Int).SetBytes(o) }
	e := number(k.E)
	if k.P == nil || k.Q == nil || k.Oth != nil || !e.IsInt64() || e.Int64() > math.MaxInt32 {
		return nil, fmt.Errorf("%w: an RSA key in a JWK has the members n, e, d, p and q, and not oth", ErrBadKey)
	}
	key := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: number(k.N), E: int(e.Int64())},
		D:         number(k.D), Primes: []*big.Int{number(k.P), number(k.Q)},
	}
	signer, err := checked(key)
	if err == nil {
		key.Precompute()
	}
	return signer, err
}

func fromDER(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: the PKCS#8 content does not parse as a valid key", ErrBadKey)
	}
	return checked(key)
}

var errType = fmt.Errorf("%w: neither RSA nor Ed25519", ErrBadKey)

func checked(key any) (crypto.Signer, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if n := k.N.BitLen(); n < MinRSA || n > MaxRSA {
			return nil, fmt.Errorf("%w: RSA of %d bits, allowed are %d to %d", ErrBadKey, n, MinRSA, MaxRSA)
		}
		if err := k.Validate(); err != nil {
			return nil, fmt.Errorf("%w: the parts of the RSA key do not belong together", ErrBadKey)
		}
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, errType
}

func generate(t Type) (crypto.Signer, error) {
	switch t {
	case RSA:
		key, err := rsa.GenerateKey(rand.Reader, defaultRSA)
		if err != nil {
			return nil, fmt.Errorf("generate RSA key: %w", err)
		}
		return key, nil
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate Ed25519 key: %w", err)
		}
		return key, nil
	}
	return nil, fmt.Errorf("%w: type %q is neither %q nor %q", ErrBadKey, t, RSA, Ed25519)
}

// GeneratePEM makes a private key and returns it as PKCS#8 in PEM. Its error wraps ErrBadKey if t is no
// type.
func GeneratePEM(t Type) (string, error) {
	signer, err := generate(t)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return "", fmt.Errorf("encode a new key: %w", err)
	}
	defer clear(der)
	return privatePEM(der), nil
}

func privatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// public returns the public half of a key, in PEM as actors publish it in publicKeyPem.
func public(id string, s crypto.Signer) (Public, error) {
	p := Public{ID: id, Type: RSA}
	if _, ok := s.(ed25519.PrivateKey); ok {
		p.Type = Ed25519
	}
	der, err := x509.MarshalPKIXPublicKey(s.Public())
	if err != nil {
		return Public{}, fmt.Errorf("encode public key: %w", err)
	}
	p.PublicPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return p, nil
}

// CheckID returns an error that wraps ErrBadID if id cannot name a key. An id is a header parameter of
// every signature, so it has visible ASCII characters only, and no quotes.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrBadID)
	case len(id) > MaxID:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrBadID, MaxID)
	case id == "." || id == "..":
		return fmt.Errorf("%w: it cannot be part of a path", ErrBadID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: it is not UTF-8", ErrBadID)
	}
	for _, r := range id {
		if r == '"' || r == '\\' || r <= ' ' || r >= 0x7f {
			return fmt.Errorf("%w: it holds the character %q; percent-encode it", ErrBadID, r)
		}
	}
	return nil
}
