package peers

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

// RotateTimeout is how long a peer has for each of the two requests of a Rotation.
const RotateTimeout = DiscoveryTimeout

// Rotation changes our own keys at peers. Old and New have the same origin.
type Rotation struct {
	HTTP     Exchange
	Old, New crypto.Identity
	Entropy  io.Reader
}

// At changes our keys at a peer, to whose pinned encryption key the proofs are sealed. If an error
// came without an answer, the peer may have either keys; else it has the old ones.
func (r Rotation) At(ctx context.Context, peer, encryptionKey string) error {
	key, err := crypto.DecodeSize(encryptionKey, crypto.KeySize)
	if err != nil {
		return fmt.Errorf("its encryption key: %w", err)
	}
	body, err := wire.RotationBody(r.Old.Origin, r.New.PublicKey, r.New.EncryptionKey)
	if err != nil {
		return err
	}
	a, err := r.post(ctx, peer+"/discover/rotate/init", body)
	if err != nil {
		return err
	}
	c, err := wire.ParseChallenges(a.Body)
	if err != nil {
		return err
	}
	proofs := wire.Proofs{SigningOld: r.Old.Sign(c.SigningOld), SigningNew: r.New.Sign(c.SigningNew)}
	if proofs.EncryptionOld, err = opened(r.Old, c.EncryptionOld); err != nil {
		return fmt.Errorf("challenge to the old encryption key: %w", err)
	}
	if proofs.EncryptionNew, err = opened(r.New, c.EncryptionNew); err != nil {
		return fmt.Errorf("challenge to the new encryption key: %w", err)
	}
	text, err := proofs.Text()
	if err != nil {
		return err
	}
	sealed, err := crypto.Seal(r.Entropy, key, text)
	if err != nil {
		return err
	}
	if body, err = wire.ConfirmationBody(r.Old.Origin, sealed); err != nil {
		return err
	}
	_, err = r.post(ctx, peer+"/discover/rotate/confirm", body)
	return err
}

// rotationRefusals are what a peer's statuses mean to an operator.
var rotationRefusals = map[int]string{
	http.StatusBadRequest: "it refuses the new keys, or has them already",
	http.StatusForbidden:  "it has blocked us",
	http.StatusNotFound:   "it does not know us, or knows no change of keys",
	http.StatusConflict:   "a change of keys is under way there; it ends within five minutes",
}

func (r Rotation) post(ctx context.Context, url, body string) (outbound.Answer, error) {
	a, err := r.HTTP.Post(ctx, url, map[string]string{"Content-Type": "application/json"}, body, RotateTimeout)
	if err != nil || a.OK() {
		return a, err
	}
	if means, ok := rotationRefusals[a.Status]; ok {
		return a, fmt.Errorf("%w (%s)", StatusError(url, a), means)
	}
	return a, StatusError(url, a)
}

func opened(id crypto.Identity, e crypto.Envelope) (string, error) {
	text, err := id.Open(e)
	if err != nil {
		return "", err
	}
	return text, wire.Challenge(text)
}
