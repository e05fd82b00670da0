package sipher_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/sipher/wire"
	"fedpost/internal/testkit/sipherpeer"
)

// rotation changes the bed's keys to those that it returns.
func (b *bed) rotation() (peers.Rotation, *sipherpeer.Peer) {
	b.t.Helper()
	next := sipherpeer.New(b.t, ourURL)
	env := next.Settings()
	id, err := crypto.LoadIdentity(func(name string) string { return env[name] })
	if err != nil {
		b.t.Fatal(err)
	}
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", Transport: b.net})
	if err != nil {
		b.t.Fatal(err)
	}
	return peers.Rotation{HTTP: peers.NewExchange(client), Old: b.identity(), New: id, Entropy: rand.Reader}, next
}

func TestAPeerTakesOurNewKeysForTheProofsOfBoth(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	r, next := b.rotation()
	if err := r.At(t.Context(), urlB, b.b.EncryptionKey()); err != nil {
		t.Fatal(err)
	}
	if signing, encryption, _ := b.b.Knows(ourURL); signing != next.PublicKey() || encryption != next.EncryptionKey() {
		t.Errorf("the peer has keys %s and %s, want %s and %s", signing, encryption, next.PublicKey(), next.EncryptionKey())
	}
	if err := r.At(t.Context(), urlB, b.b.EncryptionKey()); err == nil || !strings.Contains(err.Error(), "has them already") {
		t.Errorf("the second time: %v", err)
	}
	if err := r.At(t.Context(), urlP, b.p.EncryptionKey()); err == nil || !strings.Contains(err.Error(), "answered 404") {
		t.Errorf("a peer that does not know us: %v", err)
	}
}

// TestNothingButAUUIDIsSignedOrDecryptedForAPeer: a peer could have a payload signed, and a
// message opened that somebody else has sealed to us.
func TestNothingButAUUIDIsSignedOrDecryptedForAPeer(t *testing.T) {
	b := newBed(t)
	r, _ := b.rotation()
	const id, message = "0b9e4c1e-4b5e-4b0a-9d3e-0a1b2c3d4e5f", `{"method":"FEDERATE_POST"}`
	sealed := func(to crypto.Identity, text string) crypto.Envelope {
		key, err := crypto.Decode(to.EncryptionKey)
		if err != nil {
			t.Fatal(err)
		}
		e, err := crypto.Seal(rand.Reader, key, text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for name, wrong := range map[string]map[string]any{
		"a payload to sign with the old key":   {"signingOldChallenge": message},
		"a payload to sign with the new key":   {"signingNewChallenge": message},
		"a UUID in another spelling":           {"signingOldChallenge": "{" + id + "}"},
		"no text":                              {"signingOldChallenge": 7},
		"a message to the old key":             {"encryptionOldChallenge": sealed(r.Old, message)},
		"a message to the new key":             {"encryptionNewChallenge": sealed(r.New, message)},
		"an envelope to somebody else's key":   {"encryptionNewChallenge": sealed(r.Old, id)},
		"no envelope":                          {"encryptionOldChallenge": "x"},
		"an envelope that names its parts not": {"encryptionOldChallenge": map[string]string{}},
	} {
		answer := map[string]any{
			"signingOldChallenge": id, "signingNewChallenge": id, "encryptionOldChallenge": sealed(r.Old, id), "encryptionNewChallenge": sealed(r.New, id),
		}
		for k, v := range wrong {
			answer[k] = v
		}
		var asked []string
		b.net.Serve("https://evil.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			_ = json.NewEncoder(w).Encode(answer)
		}))
		err := r.At(t.Context(), "https://evil.example", b.b.EncryptionKey())
		if !errors.Is(err, wire.ErrRotation) && !errors.Is(err, crypto.ErrOpen) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if got := fmt.Sprint(asked); got != "[/discover/rotate/init]" {
			t.Errorf("%s: asked for %s, want no confirmation", name, got)
		}
	}
}

func TestAPeerThatDoesNotConfirmIsSaidToHaveTheOldKeys(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	r, _ := b.rotation()
	// The proofs are sealed to somebody else, so the peer cannot read them.
	err := r.At(t.Context(), urlB, b.p.EncryptionKey())
	if err == nil || !strings.Contains(err.Error(), "rotate/confirm answered 400") {
		t.Errorf("got %v", err)
	}
	if signing, _, _ := b.b.Knows(ourURL); signing != b.a.PublicKey() {
		t.Errorf("the peer has key %s, want the old one", signing)
	}
	err = r.At(t.Context(), urlB, b.b.EncryptionKey())
	if err == nil || !strings.Contains(err.Error(), "within five minutes") {
		t.Errorf("while a change is under way: %v", err)
	}
}
