package keys_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/keys"
)

// shelf is a Store in memory that counts its reads.
type shelf struct {
	mu    sync.Mutex
	keys  map[string]keys.Sealed
	reads int
	err   error
	gate  chan struct{} // if set, reads wait for it
	slow  *keys.Sealed  // if set, what reads find
}

func (s *shelf) PutKey(_ context.Context, k keys.Sealed, replace bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.keys[k.ID]; ok && !replace {
		return keys.ErrExists
	}
	s.keys[k.ID] = k
	return s.err
}

func (s *shelf) Key(_ context.Context, id string) (keys.Sealed, error) {
	s.mu.Lock()
	s.reads++
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[id]
	if s.slow != nil {
		k = *s.slow
	}
	if !ok {
		return k, errors.Join(keys.ErrNotFound, s.err)
	}
	return k, s.err
}

func (s *shelf) ListKeys(context.Context, string, int) (ks []keys.Public, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, k := range s.keys {
		ks = append(ks, keys.Public{ID: id, Type: k.Type, PublicPEM: k.PublicPEM})
	}
	return ks, "", s.err
}

func (s *shelf) DeleteKey(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		delete(s.keys, id)
	}
	return s.err
}

func (s *shelf) PublicKey(ctx context.Context, id string) (keys.Public, error) {
	k, err := s.Key(ctx, id)
	return keys.Public{ID: id, Type: k.Type, PublicPEM: k.PublicPEM}, err
}

type world struct {
	*testing.T
	shelf  *shelf
	ring   *keys.Ring
	sealer keys.Sealer
	clock  time.Time
}

func newWorld(t *testing.T, o keys.Options) *world {
	t.Helper()
	w := &world{T: t, shelf: &shelf{keys: map[string]keys.Sealed{}}, clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	o.Now = func() time.Time { return w.clock }
	w.sealer = sealer
	w.ring = keys.New(w.shelf, sealer, o)
	return w
}

const id = "https://social.example/users/frida#main-key"

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", der)
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestEveryFormOfKeyIsStoredAndSigns(t *testing.T) {
	r := rsaKey(t, 2048)
	_, e, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pem  string
		kind keys.Type
		pub  crypto.PublicKey
	}{
		"RSA in PKCS#1":      {pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r)), keys.RSA, r.Public()},
		"RSA in PKCS#8":      {pkcs8(t, r), keys.RSA, r.Public()},
		"Ed25519":            {pkcs8(t, e), keys.Ed25519, e.Public()},
		"text around it":     {"my key\n\n" + pkcs8(t, e) + "\n\n", keys.Ed25519, e.Public()},
		"Windows line feeds": {strings.ReplaceAll(pkcs8(t, e), "\n", "\r\n"), keys.Ed25519, e.Public()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, keys.Options{})
			p, err := w.ring.Put(t.Context(), id, c.pem)
			if err != nil {
				t.Fatal(err)
			}
			if p.Type != c.kind || p.ID != id {
				t.Errorf("stored as %+v", p)
			}
			block, _ := pem.Decode([]byte(p.PublicPEM))
			if block == nil || block.Type != "PUBLIC KEY" {
				t.Fatalf("public half is %q", p.PublicPEM)
			}
			pub, err := x509.ParsePKIXPublicKey(block.Bytes)
			if err != nil || !pub.(interface{ Equal(crypto.PublicKey) bool }).Equal(c.pub) {
				t.Errorf("public half is another key's: %v", err)
			}
			signer, err := w.ring.SigningKey(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			verify(t, signer, c.pub)
			if got, err := w.ring.Public(t.Context(), id); err != nil || got != p {
				t.Errorf("shown as %+v, %v", got, err)
			}
		})
	}
}

func verify(t *testing.T, signer crypto.Signer, pub crypto.PublicKey) {
	t.Helper()
	text := []byte("signed text")
	switch pub := pub.(type) {
	case *rsa.PublicKey:
		sum := sha256.Sum256(text)
		sig, err := signer.Sign(rand.Reader, sum[:], crypto.SHA256)
		if err != nil || rsa.VerifyPKCS1v15(pub, crypto.SHA256, sum[:], sig) != nil {
			t.Errorf("RSA signature is wrong: %v", err)
		}
	case ed25519.PublicKey:
		sig, err := signer.Sign(nil, text, crypto.Hash(0))
		if err != nil || !ed25519.Verify(pub, text, sig) {
			t.Errorf("Ed25519 signature is wrong: %v", err)
		}
	}
}

func TestUnusableKeysAreRefusedWithTheReasonAndNothingOfTheKey(t *testing.T) {
	small := rsaKey(t, 1024)
	good := rsaKey(t, 2048)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(good.Public())
	if err != nil {
		t.Fatal(err)
	}
	der := x509.MarshalPKCS1PrivateKey(good)
	for name, c := range map[string]struct{ pem, says string }{
		"no PEM":      {"hunter2-is-my-secret", "no PEM block"},
		"empty":       {"", "no PEM block"},
		"huge":        {strings.Repeat("x", keys.MaxText+1), "longer than"},
		"1024 bits":   {pkcs8(t, small), "RSA of 1024 bits"},
		"ECDSA":       {pkcs8(t, ec), "neither RSA nor Ed25519"},
		"public":      {pemOf("PUBLIC KEY", public), "the private key is needed"},
		"OpenSSH":     {pemOf("OPENSSH PRIVATE KEY", der), "ssh-keygen"},
		"encrypted 8": {pemOf("ENCRYPTED PRIVATE KEY", der), "passphrase"},
		"encrypted 1": {string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}, Bytes: der})), "passphrase"},
		"cut":         {pemOf("RSA PRIVATE KEY", der[:len(der)/2]), "does not parse"},
		"cut PKCS#8":  {pemOf("PRIVATE KEY", der[:len(der)/2]), "does not parse"},
		"other type":  {pemOf("DH PARAMETERS", der), "PEM type"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, keys.Options{})
			_, err := w.ring.Put(t.Context(), id, c.pem)
			if !errors.Is(err, keys.ErrBadKey) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "MII")) {
				t.Errorf("error shows what was given: %v", err)
			}
			if len(w.shelf.keys) > 0 {
				t.Error("something was stored")
			}
		})
	}
}

func TestUnusableIDsAreRefused(t *testing.T) {
	w := newWorld(t, keys.Options{})
	for _, id := range []string{"", ".", "..", "a b", "a\"b", `a\b`, "a\nb", "a\x00", "a\xff", "\u2028", "https://social.example/users/ünal#main-key", strings.Repeat("x", keys.MaxID+1)} {
		if _, err := w.ring.Generate(t.Context(), id, keys.Ed25519); !errors.Is(err, keys.ErrBadID) {
			t.Errorf("%q: %v", id, err)
		}
		if known, err := w.ring.Known(t.Context(), id); known || err != nil {
			t.Errorf("%q is known: %v", id, err)
		}
	}
}

func TestGenerateMakesAKeyOfTheTypeAndNeverReplacesOne(t *testing.T) {
	w := newWorld(t, keys.Options{})
	for _, kind := range []keys.Type{keys.RSA, keys.Ed25519} {
		p, err := w.ring.Generate(t.Context(), id+string(kind), kind)
		if err != nil || p.Type != kind {
			t.Fatalf("%s: %+v, %v", kind, p, err)
		}
		if _, err := w.ring.Generate(t.Context(), id+string(kind), kind); !errors.Is(err, keys.ErrExists) {
			t.Errorf("%s again: %v", kind, err)
		}
		if got, err := w.ring.Public(t.Context(), id+string(kind)); err != nil || got != p {
			t.Errorf("%s was replaced: %v", kind, err)
		}
	}
	if _, err := w.ring.Generate(t.Context(), id, "dsa"); !errors.Is(err, keys.ErrBadKey) {
		t.Errorf("dsa: %v", err)
	}
}

func TestUnknownKeysAndOutagesAreDifferentErrors(t *testing.T) {
	w := newWorld(t, keys.Options{})
	if _, err := w.ring.SigningKey(t.Context(), "none"); !errors.Is(err, keys.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if known, err := w.ring.Known(t.Context(), "none"); known || err != nil {
		t.Errorf("unknown: %t, %v", known, err)
	}
	if _, err := w.ring.Generate(t.Context(), id, keys.Ed25519); err != nil {
		t.Fatal(err)
	}
	outage := errors.New("outage")
	w.shelf.err = outage
	if _, err := w.ring.Known(t.Context(), id); !errors.Is(err, outage) {
		t.Errorf("outage: %v", err)
	}
	w.shelf.err = nil
	for range 2 {
		if known, err := w.ring.Known(t.Context(), id); !known || err != nil {
			t.Errorf("known: %t, %v", known, err)
		}
		w.shelf.err = outage // the second answer comes from memory
	}
}

func TestAKeyMovedToAnotherIDDoesNotOpen(t *testing.T) {
	w := newWorld(t, keys.Options{})
	if _, err := w.ring.Generate(t.Context(), "victim", keys.Ed25519); err != nil {
		t.Fatal(err)
	}
	k := w.shelf.keys["victim"]
	k.ID = "attacker"
	w.shelf.keys["attacker"] = k
	if _, err := w.ring.SigningKey(t.Context(), "attacker"); !errors.Is(err, keys.ErrCannotOpen) {
		t.Errorf("got %v", err)
	}
}

func TestThePrivateHalfIsNotInWhatIsStored(t *testing.T) {
	w := newWorld(t, keys.Options{})
	_, e, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ring.Put(t.Context(), id, pkcs8(t, e)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(w.shelf.keys[id].Private), string(e.Seed())) {
		t.Error("the seed is stored in the clear")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n")
	f.Add("-----BEGIN RSA PRIVATE KEY-----\nMAA=\n-----END RSA PRIVATE KEY-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := keys.Parse(text)
		if (s == nil) == (err == nil) {
			t.Errorf("signer %v, error %v", s, err)
		}
		if err != nil && !errors.Is(err, keys.ErrBadKey) {
			t.Errorf("error of another class: %v", err)
		}
	})
}

func TestADeletedKeySignsNothingAndIsKnownNoMoreWithinAMinuteEverywhere(t *testing.T) {
	w := newWorld(t, keys.Options{})
	ctx := t.Context()
	other := keys.New(w.shelf, w.sealer, keys.Options{Now: func() time.Time { return w.clock }})
	if _, err := w.ring.Generate(ctx, "k", keys.Ed25519); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*keys.Ring{w.ring, other} {
		if known, err := r.Known(ctx, "k"); !known || err != nil {
			t.Fatalf("known %t, error %v; want true", known, err)
		}
		if _, err := r.SigningKey(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ring.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if known, err := w.ring.Known(ctx, "k"); known || err != nil {
		t.Errorf("known to who deleted it: %v, %v", known, err)
	}
	if _, err := w.ring.SigningKey(ctx, "k"); !errors.Is(err, keys.ErrNotFound) {
		t.Errorf("signs for who deleted it: %v", err)
	}
	w.clock = w.clock.Add(keys.Everywhere)
	if known, err := other.Known(ctx, "k"); known || err != nil {
		t.Errorf("known to another process: %v, %v", known, err)
	}
	if _, err := other.SigningKey(ctx, "k"); !errors.Is(err, keys.ErrNotFound) {
		t.Errorf("signs for another process: %v", err)
	}
	if err := w.ring.Delete(ctx, "k"); !errors.Is(err, keys.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if err := w.ring.Delete(ctx, ""); !errors.Is(err, keys.ErrBadID) {
		t.Errorf("no id: %v", err)
	}
}
