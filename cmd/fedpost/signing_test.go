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
	if faster(config.Signing{Library: "go"}, slog.New(slog.DiscardHandler)) != nil {
		t.Error("keys are not left to Go")
	}
}

// TestSigningByOpenSSL has a signer of OpenSSL's only in a build with the tag openssl, on a
// machine with OpenSSL 3.
func TestSigningByOpenSSL(t *testing.T) {
	f := faster(config.Signing{Library: "auto"}, slog.New(slog.DiscardHandler))
	if _, err := openssl.Open(); err != nil {
		if f != nil {
			t.Errorf("%v, but keys are not left to Go", err)
		}
		return
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
