package main

import (
	"crypto/rand"
	"os"

	"fedpost/internal/sipher/identity"
)

type keys struct {
	Sipher sipherKeys `cmd:"" help:"Make an identity for a Sipher network and print its settings."`
}

type sipherKeys struct {
	Origin string `arg:"" help:"Our own origin, such as https://social.example"`
}

// Run prints the settings. They hold private keys: whoever runs it stores them.
func (s sipherKeys) Run() error {
	settings, err := identity.Generate(rand.Reader, s.Origin)
	if err != nil {
		return err
	}
	_, err = settings.WriteTo(os.Stdout)
	return err
}
