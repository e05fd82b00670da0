package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"fedpost/internal/protocol/sipher/crypto"
)

// Card is how a server presents itself: its URL and its two public keys.
type Card struct {
	URL           string `json:"url"`
	PublicKey     string `json:"publicKey"`
	EncryptionKey string `json:"encryptionPublicKey"`
}

// SameKeys reports whether c and other have the same keys, however written.
func (c Card) SameKeys(other Card) bool {
	return crypto.Same(c.PublicKey, other.PublicKey) && crypto.Same(c.EncryptionKey, other.EncryptionKey)
}

// Peer is another server that a server knows.
type Peer struct {
	URL       string `json:"url"`
	IsHealthy bool   `json:"isHealthy"`
}

// Discovery is the answer to GET /discover.
type Discovery struct {
	Card
	Peers []Peer `json:"peers"`
}

// Registered is the answer to a registration: the receiver's own card.
type Registered struct {
	Message string `json:"message"`
	Echo    Card   `json:"echo"`
}

// ErrDiscovery says that an answer to GET /discover has no usable keys.
var ErrDiscovery = errors.New("invalid discovery document")

// ErrRegistration says that a body is no registration.
var ErrRegistration = errors.New("invalid registration")

// ParseDiscovery reads the card in an answer to GET /discover, with its keys as padded standard base64.
// It ignores the URL: a server is known by the URL it was asked under. The error wraps ErrDiscovery.
func ParseDiscovery(body []byte) (Card, error) {
	m, err := object(body)
	if err == nil {
		var c Card
		if c, err = keys(m); err == nil {
			return c, nil
		}
	}
	return Card{}, fmt.Errorf("%w: %w", ErrDiscovery, err)
}

// ParseRegistration reads the body of a POST /discover. The error wraps ErrRegistration.
func ParseRegistration(body []byte) (Card, error) {
	m, err := object(body)
	if err != nil {
		return Card{}, fmt.Errorf("%w: %w", ErrRegistration, err)
	}
	if method, _ := text(m, "method"); method != registerMethod {
		return Card{}, fmt.Errorf("%w: method must be %s", ErrRegistration, registerMethod)
	}
	c, err := keys(m)
	if err != nil {
		return Card{}, fmt.Errorf("%w: %w", ErrRegistration, err)
	}
	var ok bool
	if c.URL, ok = text(m, "url"); !ok || c.URL == "" {
		return Card{}, fmt.Errorf("%w: url is missing or not a string", ErrRegistration)
	}
	return c, nil
}

// RegistrationBody is what a server posts to /discover to be registered.
func RegistrationBody(c Card) (string, error) {
	return compact(struct {
		Method string `json:"method"`
		Card
	}{registerMethod, c})
}

func keys(m map[string]json.RawMessage) (Card, error) {
	var c Card
	for _, k := range []struct {
		name string
		into *string
	}{{"publicKey", &c.PublicKey}, {"encryptionPublicKey", &c.EncryptionKey}} {
		s, ok := text(m, k.name)
		if !ok {
			return Card{}, fmt.Errorf("%s is missing or not a string", k.name)
		}
		b, err := crypto.DecodeSize(s, crypto.KeySize)
		if err != nil {
			return Card{}, fmt.Errorf("%s: %w", k.name, err)
		}
		*k.into = crypto.Encode(b)
	}
	return c, nil
}
