package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"log/slog"
	"testing"

	"fedpost/internal/app/config"
	"fedpost/internal/keys/openssl"
)

func TestSigningByGoIsASetting(t *testing.T) {
	sign, by := faster(config.Signing{Library: "go"}, slog.New(slog.DiscardHandler))
	if sign != nil || by != "Go, as SIGNING_LIBRARY says" {
		t.Errorf("keys are not left to Go, but to %s", by)
	}
}

// TestSigningByOpenSSL has a signer of OpenSSL's only on a machine with OpenSSL 3.
func TestSigningByOpenSSL(t *testing.T) {
	f, by := faster(config.Signing{Library: "auto"}, slog.New(slog.DiscardHandler))
	library, err := openssl.Open()
	if err != nil {
		if want := "Go (" + err.Error() + ")"; f != nil || by != want {
			t.Errorf("keys are left to %s, want %s", by, want)
		}
		return
	}
	if want := "OpenSSL " + library.Version(); by != want {
		t.Errorf("signs by %s, want %s", by, want)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := f(other).(ed25519.PrivateKey); !ok || !k.Equal(other) {
		t.Error("an Ed25519 key is not left as it is")
	}
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	fast := f(k)
	if _, plain := fast.(*rsa.PrivateKey); plain {
		t.Error("an RSA key is left to Go")
	}
	digest := sha256.Sum256([]byte("x"))
	signature, err := fast.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if err := rsa.VerifyPKCS1v15(&k.PublicKey, crypto.SHA256, digest[:], signature); err != nil {
		t.Error(err)
	}
}
