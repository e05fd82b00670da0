package wire_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/json"
	"errors"
	"testing"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

func TestEnvelopesAreParsedByTheirExactNames(t *testing.T) {
	for _, s := range []string{
		``, `null`, `[]`, `"x"`, `7`, `{}`, `{"ephemeralPublicKey":"a","iv":"b","ciphertext":"c"}`,
		`{"EphemeralPublicKey":"a","IV":"b","Ciphertext":"c","AuthTag":"d"}`,
		`{"ephemeralPublicKey":"a","iv":"b","ciphertext":"c","authTag":7}`,
		`{"ephemeralPublicKey":"a","iv":"b","ciphertext":"c","authTag":null}`,
	} {
		if e, err := wire.ParseEnvelope([]byte(s)); !errors.Is(err, crypto.ErrOpen) {
			t.Errorf("%s: %v, %v", s, e, err)
		}
	}
	e, err := wire.ParseEnvelope([]byte(`{"extra":1,"ephemeralPublicKey":"a","iv":"b","ciphertext":"c","authTag":"d"}`))
	if err != nil || e != (crypto.Envelope{EphemeralPublicKey: "a", IV: "b", Ciphertext: "c", AuthTag: "d"}) {
		t.Errorf("the envelope is %v, error %v; want a, b, c, d", e, err)
	}
}

func FuzzEnvelope(f *testing.F) {
	secret := bytes.Repeat([]byte{7}, 32)
	k, err := ecdh.X25519().NewPrivateKey(secret)
	if err != nil {
		f.Fatal(err)
	}
	// Fixed entropy, because the fuzzer's workers each run this.
	e, err := crypto.Seal(bytes.NewReader(bytes.Repeat([]byte{9}, 44)), k.PublicKey().Bytes(), "hello")
	if err != nil {
		f.Fatal(err)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"ephemeralPublicKey":"","iv":"","ciphertext":"","authTag":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		parsed, err := wire.ParseEnvelope(b)
		if err != nil {
			if !errors.Is(err, crypto.ErrOpen) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		// Only another spelling of the same bytes may open.
		if _, err := crypto.Open(secret, parsed); err == nil &&
			!(crypto.Same(parsed.EphemeralPublicKey, e.EphemeralPublicKey) && crypto.Same(parsed.IV, e.IV) &&
				crypto.Same(parsed.Ciphertext, e.Ciphertext) && crypto.Same(parsed.AuthTag, e.AuthTag)) {
			t.Errorf("%q opens", b)
		}
	})
}
