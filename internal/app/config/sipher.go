package config

import (
	"errors"
	"os"
	"strings"

	"github.com/caarlos0/env/v11"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
)

// SipherIdentity is the public part of our identity in a Sipher network, with the variables of Sipher
// servers.
type SipherIdentity struct {
	Origin              string `env:"BETTER_AUTH_URL" help:"your server's origin, such as https://social.example, without a slash at the end"`
	PublicKey           string `env:"FEDERATION_PUBLIC_KEY" help:"your Ed25519 public key, 32 bytes in base64"`
	EncryptionPublicKey string `env:"FEDERATION_ENCRYPTION_PUBLIC_KEY" help:"your X25519 public key, 32 bytes in base64"`
}

// Load returns the identity to show to others. Its error joins *crypto.SettingFault.
func (s SipherIdentity) Load() (crypto.Public, error) { return crypto.LoadPublic(s.get) }

func (s SipherIdentity) get(name string) string {
	return map[string]string{
		crypto.SettingOrigin: s.Origin, crypto.SettingPublicKey: s.PublicKey, crypto.SettingEncryptionKey: s.EncryptionPublicKey,
	}[name]
}

func (s *SipherIdentity) check(r *report) {
	_, err := s.Load()
	r.identity(err)
}

// SipherSecrets are our identity's private keys, for programs that sign or decrypt, which also read
// SipherIdentity. Set all variables of both, or none.
type SipherSecrets struct {
	PrivateKey           string `env:"FEDERATION_PRIVATE_KEY" secret:"true" help:"your Ed25519 private key, 64 bytes (seed and public key) in base64"`
	EncryptionPrivateKey string `env:"FEDERATION_ENCRYPTION_PRIVATE_KEY" secret:"true" help:"your X25519 private key, 32 bytes in base64"`
}

// Load returns the identity to send with; public is the identity's public half.
// Its error joins *crypto.SettingFault.
func (s SipherSecrets) Load(public SipherIdentity) (crypto.Identity, error) {
	return crypto.LoadIdentity(func(name string) string {
		switch name {
		case crypto.SettingPrivateKey:
			return s.PrivateKey
		case crypto.SettingEncryptionPrivate:
			return s.EncryptionPrivateKey
		}
		return public.get(name)
	})
}

func (s *SipherSecrets) check(r *report) {
	_, err := crypto.LoadIdentity(func(name string) string { return r.env[name] })
	r.identity(err)
}

// SipherSecret is the secret from which Lambda's deliver function reads our identity's keys, as more
// people may see a function's variables than a secret.
type SipherSecret struct {
	ARN string `env:"SIPHER_SECRET_ARN" help:"the ARN of a Secrets Manager secret, a JSON object with the four FEDERATION_ settings, which replaces the variables"`
}

// SecretNames are the entries that the secret must contain.
var SecretNames = []string{
	crypto.SettingPublicKey, crypto.SettingPrivateKey, crypto.SettingEncryptionKey, crypto.SettingEncryptionPrivate,
}

// LoadWithSecret does what Load does, with the identity's keys from the secret, which must contain all
// of them.
func LoadWithSecret(cfg any, secret map[string]string) error {
	environ := env.ToMap(os.Environ())
	var faults []Fault
	for _, name := range SecretNames {
		environ[name] = secret[name]
		if strings.TrimSpace(secret[name]) == "" {
			faults = append(faults, Fault{name, "is not in the secret that SIPHER_SECRET_ARN names", "store all four keys there: fedpost keys sipher"})
		}
	}
	if len(faults) > 0 {
		return &Error{Faults: faults}
	}
	return From(cfg, environ)
}

// identity records the faults of an identity's settings.
func (r *report) identity(err error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, one := range joined.Unwrap() {
		if f, ok := errors.AsType[*crypto.SettingFault](one); ok {
			r.add(f.Setting, "cannot be used: "+f.Problem, "make a new set with: fedpost keys sipher")
		}
	}
}

// Sipher holds the settings of the Sipher protocol.
type Sipher struct {
	Threats      string `env:"SIPHER_THREAT_POLICIES" help:"a JSON object that changes what is done about an unhealthy server, by reason, such as {\"TIMEOUT\":{\"proxyEligible\":true,\"directHealthCheckable\":true}}"`
	Deliveries   int    `env:"SIPHER_DELIVERY_CONCURRENCY" envDefault:"10" min:"1" max:"256" help:"how many Sipher jobs one process delivers at a time, at most half of them to one server: 1 to 256"`
	Probes       int    `env:"SIPHER_PROBE_CONCURRENCY" min:"1" max:"64" help:"how many Sipher servers are checked at a time: 1 to 64"`
	Checks       int    `env:"SIPHER_CHECK_LIMIT" min:"1" max:"100" help:"how many failed checks of a Sipher server end its checks, until the next failed delivery to it: 1 to 100"`
	DiscoverRate int    `env:"SIPHER_DISCOVER_RATE" envDefault:"60" min:"1" max:"6000" help:"how many requests a minute one address may make to /discover: 1 to 6000"`
}

func (s *Sipher) check(r *report) {
	if _, err := peers.ParsePolicies(s.Threats); err != nil {
		r.add("SIPHER_THREAT_POLICIES", "cannot be used: "+err.Error(), "correct it, or remove it for the protocol's own policies")
	}
}
