package sipherpeer

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type vector struct {
	Label     string `json:"label"`
	Plaintext string `json:"plaintext"`
	Secret    string `json:"recipient_secret_b64"`
	Raw       string `json:"x25519_raw_shared_hex"`
	Before    string `json:"nacl_box_before_hex"`
	Envelope  sealed `json:"envelope"`
}

func TestThePeerOpensTheVectors(t *testing.T) {
	raw, err := os.ReadFile("../../protocol/sipher/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Encrypt []vector `json:"encrypt"`
		Follow  struct {
			Encryption vector `json:"encryption"`
		} `json:"deliver_follow"`
		Proxy struct {
			Encryption vector `json:"encryption"`
		} `json:"proxy"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	for _, v := range append(f.Encrypt, f.Follow.Encryption, f.Proxy.Encryption) {
		secret, err := base64.StdEncoding.DecodeString(v.Secret)
		if err != nil {
			t.Fatal(err)
		}
		shared, err := hex.DecodeString(v.Raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(hsalsa20(shared)); got != v.Before {
			t.Errorf("%s: HSalsa20 gives %s, want %s", v.Label, got, v.Before)
		}
		k := keys{}
		if k.secret, err = ecdh.X25519().NewPrivateKey(secret); err != nil {
			t.Fatal(err)
		}
		if got, err := k.open(v.Envelope); err != nil || got != v.Plaintext {
			t.Errorf("%s: %q, %v", v.Label, got, err)
		}
	}
}

func TestThePeerOpensWhatItSeals(t *testing.T) {
	k := newKeys(t)
	e, err := seal(k.encryptionKey(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.open(e); err != nil || got != "hello" {
		t.Errorf("the envelope opens to %q, error %v; want hello", got, err)
	}
	if _, err := newKeys(t).open(e); err == nil {
		t.Error("opens for somebody else")
	}
}

func TestThePeerSharesNoCodeWithWhatItTests(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 8 {
		t.Fatalf("files %v, error %v; want at least 8", files, err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, "golang.org/x/crypto/") || strings.HasPrefix(path, "fedpost/") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
