package keys_test

import (
	"crypto"
	"testing"
	"time"

	"fedpost/internal/keys"
)

// stand is a signer that stands in for another.
type stand struct{ crypto.Signer }

func TestAnOpenedKeySignsByWhatIsFaster(t *testing.T) {
	made := 0
	w := newWorld(t, keys.Options{CacheTTL: time.Hour, Recheck: time.Hour, Faster: func(s crypto.Signer) crypto.Signer { made++; return stand{s} }})
	p, err := w.ring.Generate(t.Context(), id, keys.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s, err := w.ring.SigningKey(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.(stand); !ok || made != 1 {
			t.Errorf("signs by a %T, made %d times", s, made)
		}
	}
	// What is stored is never made from the stand-in.
	if got, err := w.ring.Public(t.Context(), id); err != nil || got != p {
		t.Errorf("public half %v, error %v", got, err)
	}
}
