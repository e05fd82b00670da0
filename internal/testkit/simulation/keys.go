package simulation

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"fedpost/internal/testkit/fediverse"
)

// actors is how many actors are ours, unless a post is by another.
const actors = 3

// signers is how many actors of ours the story has.
func (sc Scenario) signers() int {
	n := actors
	for _, a := range sc.Acts {
		if a.Post != nil {
			n = max(n, a.Post.Actor+1)
		}
	}
	return n
}

func keyID(actor int) string { return fmt.Sprintf("https://us.example/users/%d#key", actor) }

// key is one of an actor's: Ed25519, which signs a hundred times as fast as RSA.
func key(actor, number int) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0], seed[1] = byte(actor+1), byte(number)
	return ed25519.NewKeyFromSeed(seed)
}

func keyPEM(actor, number int) string {
	der, err := x509.MarshalPKCS8PrivateKey(key(actor, number))
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// keyRequest is the body that puts a key in place of another.
func keyRequest(actor, number int) string {
	b, err := json.Marshal(map[string]string{"privateKeyPem": keyPEM(actor, number)})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// keyring is what is known of the actors' keys: those that may be in use, by number, and when a
// caller learnt that another has replaced it.
type keyring map[int]map[int]time.Time

func newKeyring(actors int) keyring {
	k := keyring{}
	for actor := range actors {
		k[actor] = map[int]time.Time{0: {}}
	}
	return k
}

// offer records that a key may be used from now on.
func (k keyring) offer(actor, number int) { k[actor][number] = time.Time{} }

// replaced records that a key is the one to use, in place of all others.
func (k keyring) replaced(actor, number int, now time.Time) {
	for other, at := range k[actor] {
		if other != number && at.IsZero() {
			k[actor][other] = now
		}
	}
}

// signed checks that a request is signed with a key of its actor that was not replaced some time
// ago, as a server sees it that fetches keys anew.
func (b *book) signed(p *process, r *http.Request, body []byte) {
	// A process that has the key opened looks every five seconds whether it was replaced.
	grace := 10*time.Second + b.gap()
	if !b.calm() {
		grace += 10 * time.Minute // the store cannot always be read
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.Host = r.URL.RequestURI(), r.URL.Host
	var why error
	for actor := range b.scenario.signers() {
		for number, at := range b.keys[actor] {
			if !at.IsZero() && time.Since(at) > grace {
				continue
			}
			known := map[string]crypto.PublicKey{keyID(actor): key(actor, number).Public()}
			err := fediverse.NewInbox(known).Clock(p.now).Verify(in, body)
			if err == nil {
				return
			}
			why = err
		}
	}
	b.fail("signed", "a request to %s verifies with no key that its actor has or had a moment ago: %v", r.URL.Host, why)
}
