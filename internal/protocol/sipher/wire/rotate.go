package wire

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"fedpost/internal/protocol/sipher/crypto"
)

// ErrRotation says that an answer to a change of keys is invalid.
var ErrRotation = errors.New("invalid challenge")

// RotationBody begins to change the keys of the server at url to new ones.
func RotationBody(url, signing, encryption string) (string, error) {
	return compact(struct {
		URL        string `json:"url"`
		Signing    string `json:"newSigningPublicKey"`
		Encryption string `json:"newEncryptionPublicKey"`
	}{url, signing, encryption})
}

// Challenges are what a server has to sign, and to open, with its old and its new keys.
type Challenges struct {
	SigningOld, SigningNew       string
	EncryptionOld, EncryptionNew crypto.Envelope
}

// ParseChallenges reads the answer to a RotationBody. The error wraps ErrRotation.
func ParseChallenges(body []byte) (c Challenges, err error) {
	m, err := object(body)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrRotation, err)
	}
	for name, into := range map[string]*string{"signingOldChallenge": &c.SigningOld, "signingNewChallenge": &c.SigningNew} {
		*into, _ = text(m, name)
		if err := Challenge(*into); err != nil {
			return Challenges{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, into := range map[string]*crypto.Envelope{"encryptionOldChallenge": &c.EncryptionOld, "encryptionNewChallenge": &c.EncryptionNew} {
		if *into, err = ParseEnvelope(m[name]); err != nil {
			return Challenges{}, fmt.Errorf("%w: %s: %w", ErrRotation, name, err)
		}
	}
	return c, nil
}

// Challenge returns an error that wraps ErrRotation unless s is a UUID: the sender gets it signed or
// opened, and anything else could be a forged payload, or a message to us.
func Challenge(s string) error {
	if len(s) != 36 || uuid.Validate(s) != nil {
		return fmt.Errorf("%w: not a UUID", ErrRotation)
	}
	return nil
}

// Proofs answer Challenges.
type Proofs struct {
	SigningOld    string `json:"signingOldSignature"`
	SigningNew    string `json:"signingNewSignature"`
	EncryptionOld string `json:"encryptionOldPlaintext"`
	EncryptionNew string `json:"encryptionNewPlaintext"`
}

// Text is what is sealed to the peer.
func (p Proofs) Text() (string, error) { return compact(p) }

// ConfirmationBody ends a change of the keys of the server at url with sealed Proofs.
func ConfirmationBody(url string, sealed crypto.Envelope) (string, error) {
	return compact(struct {
		URL      string          `json:"serverUrl"`
		Envelope crypto.Envelope `json:"envelope"`
	}{url, sealed})
}
