package config

import (
	"errors"

	"fedpost/internal/sipher/identity"
	"fedpost/internal/sipher/threat"
)

// Sipher is our identity in a Sipher network. All of it is needed to speak
// Sipher, none of it otherwise. The names are those Sipher servers use.
type Sipher struct {
	Origin               string `env:"BETTER_AUTH_URL" help:"our own origin, such as https://social.example, without a slash at the end"`
	PublicKey            string `env:"FEDERATION_PUBLIC_KEY" help:"our Ed25519 public key, 32 bytes in base64"`
	PrivateKey           string `env:"FEDERATION_PRIVATE_KEY" secret:"true" help:"our Ed25519 private key, 64 bytes (seed and public key) in base64"`
	EncryptionPublicKey  string `env:"FEDERATION_ENCRYPTION_PUBLIC_KEY" help:"our X25519 public key, 32 bytes in base64"`
	EncryptionPrivateKey string `env:"FEDERATION_ENCRYPTION_PRIVATE_KEY" secret:"true" help:"our X25519 private key, 32 bytes in base64"`
	Threats              string `env:"SIPHER_THREAT_POLICIES" help:"a JSON object that changes what is done about a reason for which a server is unhealthy, such as {\"TIMEOUT\":{\"proxyEligible\":true,\"directHealthCheckable\":true}}"`
	Deliveries           int    `env:"SIPHER_DELIVERY_CONCURRENCY" envDefault:"10" min:"1" max:"256" help:"how many Sipher jobs one process delivers at a time, of which one server takes at most half: 1 to 256"`
	Probes               int    `env:"SIPHER_PROBE_CONCURRENCY" envDefault:"3" min:"1" max:"64" help:"how many Sipher servers the health check asks at a time: 1 to 64"`
	DiscoverRate         int    `env:"SIPHER_DISCOVER_RATE" envDefault:"60" min:"1" max:"6000" help:"how many requests a minute one address may make to /discover: 1 to 6000"`
}

// Get returns a variable's value, as os.Getenv would.
func (s Sipher) Get(name string) string {
	return map[string]string{
		identity.SettingOrigin: s.Origin, identity.SettingPublicKey: s.PublicKey, identity.SettingPrivateKey: s.PrivateKey,
		identity.SettingEncryptionKey: s.EncryptionPublicKey, identity.SettingEncryptionPrivate: s.EncryptionPrivateKey,
	}[name]
}

func (s *Sipher) check(r *report) {
	if _, err := threat.Parse(s.Threats); err != nil {
		r.add("SIPHER_THREAT_POLICIES", "cannot be used: "+err.Error(), "mend it, or remove it for the protocol's own policies")
	}
	_, err := identity.Load(s.Get)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, one := range joined.Unwrap() {
		if f, ok := errors.AsType[*identity.Fault](one); ok {
			r.add(f.Setting, "cannot be used: "+f.Problem, "make a new set with: fedpost keys sipher")
		}
	}
}
