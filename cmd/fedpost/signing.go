package main

import (
	"crypto"
	"crypto/rsa"
	"log/slog"

	"fedpost/internal/app/config"
	"fedpost/internal/keys/openssl"
)

// faster returns what makes RSA keys sign by OpenSSL, nil if they sign by Go.
func faster(s config.Signing, log *slog.Logger) func(crypto.Signer) crypto.Signer {
	if s.Library != "auto" {
		return nil
	}
	library, err := openssl.Open()
	if err != nil {
		log.Info("RSA is signed by Go", "because", err)
		return nil
	}
	log.Info("RSA is signed by OpenSSL", "version", library.Version())
	return func(k crypto.Signer) crypto.Signer {
		plain, ok := k.(*rsa.PrivateKey)
		if !ok {
			return k
		}
		fast, err := library.Signer(plain)
		if err != nil {
			log.Warn("a key is signed with by Go, not by OpenSSL", "because", err)
			return k
		}
		return fast
	}
}
