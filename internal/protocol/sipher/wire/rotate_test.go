package wire_test

import (
	"errors"
	"testing"

	"fedpost/internal/protocol/sipher/wire"
)

func FuzzChallenges(f *testing.F) {
	const id, envelope = `"0b9e4c1e-4b5e-4b0a-9d3e-0a1b2c3d4e5f"`, `{"ephemeralPublicKey":"a","iv":"b","ciphertext":"c","authTag":"d"}`
	f.Add([]byte(`{"signingOldChallenge":` + id + `,"signingNewChallenge":` + id + `,"encryptionOldChallenge":` + envelope + `,"encryptionNewChallenge":` + envelope + `}`))
	f.Add([]byte(`{"signingOldChallenge":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := wire.ParseChallenges(b)
		switch {
		case err != nil && !errors.Is(err, wire.ErrRotation):
			t.Errorf("error of another kind: %v", err)
		case err == nil && (len(c.SigningOld) != 36 || len(c.SigningNew) != 36):
			t.Errorf("%q: %+v", b, c)
		}
	})
}
