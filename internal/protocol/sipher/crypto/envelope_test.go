package crypto

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpost/internal/testkit/property"
)

type vector struct {
	Label           string   `json:"label"`
	Plaintext       string   `json:"plaintext"`
	RecipientPublic string   `json:"recipient_public_b64"`
	RecipientSecret string   `json:"recipient_secret_b64"`
	EphemeralSecret string   `json:"ephemeral_secret_hex"`
	IV              string   `json:"iv_hex"`
	ContentKey      string   `json:"hkdf_sha256_aes_key_hex"`
	Envelope        Envelope `json:"envelope"`
}

// vectors returns every encryption the file records, wherever it stands.
func vectors(t *testing.T) []vector {
	t.Helper()
	type holder struct {
		Encryption vector `json:"encryption"`
	}
	var f struct {
		Encrypt []vector `json:"encrypt"`
		Follow  holder   `json:"deliver_follow"`
		Acks    []holder `json:"acks"`
		Proxy   holder   `json:"proxy"`
	}
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	vs := append(f.Encrypt, f.Follow.Encryption, f.Proxy.Encryption)
	for _, a := range f.Acks {
		vs = append(vs, a.Encryption)
	}
	if len(vs) != 7 {
		t.Fatalf("%d vectors", len(vs))
	}
	return vs
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSealMatchesTheVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Label, func(t *testing.T) {
			entropy := bytes.NewReader(append(unhex(t, v.EphemeralSecret), unhex(t, v.IV)...))
			got, err := Seal(entropy, unbase64(t, v.RecipientPublic), v.Plaintext)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(v.Envelope, got); d != "" {
				t.Error(d)
			}
			plain, err := Open(unbase64(t, v.RecipientSecret), v.Envelope)
			if err != nil || plain != v.Plaintext {
				t.Errorf("Open = %q, %v", plain, err)
			}
		})
	}
}

func TestContentKeyMatchesTheVectors(t *testing.T) {
	for _, v := range vectors(t) {
		k, err := contentKey((*[32]byte)(unhex(t, v.EphemeralSecret)), (*[32]byte)(unbase64(t, v.RecipientPublic)))
		if got := hex.EncodeToString(k); err != nil || got != v.ContentKey {
			t.Errorf("%s: %s, %v", v.Label, got, err)
		}
	}
}

func TestEnvelopeFieldsKeepTheirOrder(t *testing.T) {
	b, err := json.Marshal(Envelope{"a", "b", "c", "d"})
	if want := `{"ephemeralPublicKey":"a","iv":"b","ciphertext":"c","authTag":"d"}`; err != nil || string(b) != want {
		t.Errorf("the envelope is %s, error %v; want %s", b, err, want)
	}
}

func pair(t interface{ Fatal(...any) }) (secret, public []byte) {
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k.Bytes(), k.PublicKey().Bytes()
}

func TestOpenOfSealIsTheIdentity(t *testing.T) {
	secret, public := pair(t)
	property.Check(t, func(t *rapid.T) {
		plain := rapid.String().Draw(t, "plaintext")
		e, err := Seal(rand.Reader, public, plain)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var parsed Envelope
		if err := json.Unmarshal(raw, &parsed); err != nil || parsed != e {
			t.Fatalf("Parse = %v, %v", parsed, err)
		}
		got, err := Open(secret, parsed)
		if err != nil || got != plain {
			t.Fatalf("Open = %q, %v", got, err)
		}
	})
}

func TestAnyFlippedBitOfAnEnvelopeIsRefused(t *testing.T) {
	secret, public := pair(t)
	e, err := Seal(rand.Reader, public, `{"method":"FEDERATE"}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string]func(*Envelope) *string{
		"ephemeralPublicKey": func(e *Envelope) *string { return &e.EphemeralPublicKey },
		"iv":                 func(e *Envelope) *string { return &e.IV },
		"ciphertext":         func(e *Envelope) *string { return &e.Ciphertext },
		"authTag":            func(e *Envelope) *string { return &e.AuthTag },
	} {
		decoded := unbase64(t, *field(&e))
		for i := range len(decoded) * 8 {
			b, c := bytes.Clone(decoded), e
			b[i/8] ^= 1 << (i % 8)
			*field(&c) = Encode(b)
			if _, err := Open(secret, c); !errors.Is(err, ErrOpen) {
				t.Errorf("%s opens with bit %d of its bytes flipped: %v", name, i, err)
			}
		}
		text := []byte(*field(&e))
		for i := range len(text) * 8 {
			b, c := bytes.Clone(text), e
			b[i/8] ^= 1 << (i % 8)
			*field(&c) = string(b)
			if _, err := Open(secret, c); !errors.Is(err, ErrOpen) {
				t.Errorf("%s opens with bit %d of its text flipped (%q): %v", name, i, b, err)
			}
		}
	}
}

func TestEnvelopesThatDoNotOpen(t *testing.T) {
	secret, public := pair(t)
	other, _ := pair(t)
	good, err := Seal(rand.Reader, public, "hello")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other, good); !errors.Is(err, ErrOpen) {
		t.Errorf("wrong recipient: %v", err)
	}
	if _, err := Open(secret[:31], good); !errors.Is(err, ErrOpen) {
		t.Errorf("short secret: %v", err)
	}
	change := func(f func(*Envelope)) Envelope {
		e := good
		f(&e)
		return e
	}
	lowOrder := make([]byte, 32)
	for name, e := range map[string]Envelope{
		"nothing":            {},
		"short tag":          change(func(e *Envelope) { e.AuthTag = Encode(unbase64(t, e.AuthTag)[:12]) }),
		"short iv":           change(func(e *Envelope) { e.IV = Encode(unbase64(t, e.IV)[:8]) }),
		"low-order point":    change(func(e *Envelope) { e.EphemeralPublicKey = Encode(lowOrder) }),
		"short ephemeral":    change(func(e *Envelope) { e.EphemeralPublicKey = "QQ==" }),
		"ciphertext no text": change(func(e *Envelope) { e.Ciphertext = "?" }),
	} {
		if _, err := Open(secret, e); !errors.Is(err, ErrOpen) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutcome4EncryptionKeyThatCannotBeSealedTo(t *testing.T) {
	for name, k := range map[string][]byte{"none": nil, "short": make([]byte, 31), "long": make([]byte, 33), "low order": make([]byte, 32)} {
		if _, err := Seal(rand.Reader, k, "hello"); !errors.Is(err, ErrRecipient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, public := pair(t)
	if _, err := Seal(bytes.NewReader(nil), public, "hello"); err == nil || errors.Is(err, ErrRecipient) {
		t.Errorf("no entropy: %v", err)
	}
}
