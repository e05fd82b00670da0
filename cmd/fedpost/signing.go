package main

import (
	"crypto"
	"crypto/rsa"
	"fmt"
	"log/slog"

	"fedpost/internal/app/config"
	"fedpost/internal/keys/openssl"
)

// faster returns what makes RSA keys sign by OpenSSL, nil if they sign by Go, and says by which
// for people.
func faster(s config.Signing, log *slog.Logger) (sign func(crypto.Signer) crypto.Signer, by string) {
	if s.Library != "auto" {
		return nil, "Go, as SIGNING_LIBRARY says"
	}
	library, err := openssl.Open()
	if err != nil {
		return nil, fmt.Sprintf("Go (%v)", err)
	}
	return func(k crypto.Signer) crypto.Signer {
		plain, ok := k.(*rsa.PrivateKey)
		if !ok {
			return k
		}
		fast, err := library.Signer(plain)
		if err != nil {
			log.Warn("OpenSSL does not take a signing key; Go signs with it", "because", err)
			return k
		}
		return fast
	}, "OpenSSL " + library.Version()
}
