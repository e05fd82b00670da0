package claimcheck_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/message/claimcheck"
	"fedpost/internal/testkit/property"
)

type shelf map[string][][]byte

func (s shelf) PutParts(_ context.Context, ref string, parts [][]byte, _ time.Time) error {
	s[ref] = parts
	return nil
}

func (s shelf) Parts(_ context.Context, ref string, n int) ([][]byte, error) {
	if len(s[ref]) != n {
		return nil, claimcheck.ErrNotFound
	}
	return s[ref], nil
}

func TestPackThenUnpackIsTheSame(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "payload")
		parts := claimcheck.Pack(in)
		out, err := claimcheck.Unpack(parts)
		if err != nil || out != in {
			t.Fatalf("got %q, %v", out, err)
		}
	})
}

func TestLargePayloadIsCutIntoPartsThatFitAnItem(t *testing.T) {
	noise := make([]byte, 900<<10)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(noise); err != nil {
		t.Fatal(err)
	}
	s := shelf{}
	n, err := claimcheck.Put(t.Context(), s, "ref", string(noise), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if n < 3 {
		t.Errorf("%d parts", n)
	}
	for i, p := range s["ref"] {
		if len(p) > claimcheck.PartSize {
			t.Errorf("part %d has %d bytes", i, len(p))
		}
	}
	out, err := claimcheck.Get(t.Context(), s, "ref", n)
	if err != nil || out != string(noise) {
		t.Errorf("payload came back wrong: %v", err)
	}
}

func TestFiftyThousandInboxesFitAFewParts(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		b.WriteString("\"https://social-" + strconv.Itoa(i) + ".example/users/person" + strconv.Itoa(i*7) + "/inbox\",")
	}
	parts := claimcheck.Pack(b.String())
	if len(parts) > 3 {
		t.Errorf("%d bytes made %d parts", b.Len(), len(parts))
	}
}

func TestMissingAndDamagedPartsAreErrors(t *testing.T) {
	s := shelf{}
	if _, err := claimcheck.Get(t.Context(), s, "none", 2); !errors.Is(err, claimcheck.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	packed := claimcheck.Deflate(strings.Repeat("a longer text ", 100))
	for name, b := range map[string][]byte{
		"cut":   packed[:len(packed)/2],
		"empty": {},
		"noise": bytes.Repeat([]byte{0xff}, 20),
	} {
		if _, err := claimcheck.Inflate(b); !errors.Is(err, claimcheck.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInflateIsBounded(t *testing.T) {
	const most = 100_000
	for size, ok := range map[int]bool{most: true, most + 1: false, 100 * most: false} {
		bomb := claimcheck.Deflate(strings.Repeat("\x00", size))
		out, err := claimcheck.InflateAtMost(bomb, most)
		if ok && (err != nil || len(out) != size) || !ok && !errors.Is(err, claimcheck.ErrDamaged) {
			t.Errorf("%d bytes inflated to %d, %v", size, len(out), err)
		}
	}
}
