package crypto_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/testkit/property"
)

type signVector struct {
	Message   string `json:"message"`
	Secret    string `json:"secret_b64"`
	Public    string `json:"public_b64"`
	Signature string `json:"signature_b64"`
	Verifies  bool   `json:"verifies"`
}

func vectors(t *testing.T) (v struct {
	Sign     []signVector `json:"sign"`
	Negative []signVector `json:"sign_negative"`
},
) {
	t.Helper()
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Sign) == 0 || len(v.Negative) == 0 {
		t.Fatal("no signature vectors")
	}
	return v
}

func TestSignatureMatchesTheVectors(t *testing.T) {
	for _, v := range vectors(t).Sign {
		secret, err := crypto.DecodeSize(v.Secret, ed25519.PrivateKeySize)
		if err != nil {
			t.Fatal(err)
		}
		if got := crypto.Sign(secret, v.Message); got != v.Signature {
			t.Errorf("Sign(%q) = %s, want %s", v.Message, got, v.Signature)
		}
		if !crypto.Verify(v.Public, v.Message, v.Signature) {
			t.Errorf("signature of %q does not verify", v.Message)
		}
	}
}

func TestSignatureOfAnotherMessageIsRefused(t *testing.T) {
	for _, v := range vectors(t).Negative {
		if crypto.Verify(v.Public, v.Message, v.Signature) != v.Verifies {
			t.Errorf("%q: verifies = %v", v.Message, !v.Verifies)
		}
	}
}

func TestAnyFlippedBitOfASignatureIsRefused(t *testing.T) {
	v := vectors(t).Sign[0]
	sig, err := crypto.Decode(v.Signature)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(sig) * 8 {
		flipped := bytes.Clone(sig)
		flipped[i/8] ^= 1 << (i % 8)
		if crypto.Verify(v.Public, v.Message, crypto.Encode(flipped)) {
			t.Errorf("verifies with bit %d flipped", i)
		}
	}
	for _, broken := range []string{"", "?", v.Signature[:40], v.Signature + "AAAA"} {
		if crypto.Verify(v.Public, v.Message, broken) || crypto.Verify(broken, v.Message, v.Signature) {
			t.Errorf("verifies with %q", broken)
		}
	}
}

func TestKeysAreReadLenientlyAndWrittenStrictly(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "key")
		for name, enc := range map[string]*base64.Encoding{
			"standard": base64.StdEncoding, "unpadded": base64.RawStdEncoding,
			"url-safe": base64.URLEncoding, "unpadded url-safe": base64.RawURLEncoding,
		} {
			got, err := crypto.Decode(enc.EncodeToString(b))
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%s: %x, %v", name, got, err)
			}
		}
		if crypto.Encode(b) != base64.StdEncoding.EncodeToString(b) {
			t.Fatal("written other than as padded standard base64")
		}
	})
}

func TestTextsWithStrayBitsAreRefused(t *testing.T) {
	for _, s := range []string{"AB==", "AAB=", "AB", "QQ==\n", "Q\nQ==", "QQ=", "QQ===", "=", "a b", "Ä"} {
		if _, err := crypto.Decode(s); !errors.Is(err, crypto.ErrEncoding) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := crypto.DecodeSize("QQ==", 32); !errors.Is(err, crypto.ErrLength) {
		t.Errorf("one byte for 32: %v", err)
	}
}

func TestKeysCompareByBytesNotByText(t *testing.T) {
	std := "+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/8="
	url := strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(std), "=")
	if !crypto.Same(std, url) || crypto.Same(std, "AAAA") || !crypto.Same("?", "?") || crypto.Same("?", "!") {
		t.Error("keys compare wrongly")
	}
}

func TestFingerprintIsTheHashOfTheDecodedBytes(t *testing.T) {
	// printf '\000' | sha256sum
	const zero = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
	if got := crypto.Fingerprint("AA=="); got != zero {
		t.Errorf("Fingerprint = %s", got)
	}
	if crypto.Fingerprint("AA") != zero || crypto.Fingerprint("?") == zero {
		t.Error("fingerprint depends on the spelling")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("QQ==")
	f.Add("-_-_")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := crypto.Decode(s)
		if err != nil {
			return
		}
		again, err := crypto.Decode(crypto.Encode(b))
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q: %x, then %x, %v", s, b, again, err)
		}
	})
}
