package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"fedpost/internal/api/client"
	"fedpost/internal/protocol/sipher/crypto"
)

type keysCommand struct {
	Generate keysGenerate `cmd:"" help:"Make a signing key; its private half never leaves the server."`
	Put      keysPut      `cmd:"" help:"Store a signing key that you have."`
	Show     keysShow     `cmd:"" help:"Show the public half of a signing key."`
	Sipher   sipherKeys   `cmd:"" help:"Make an identity for a Sipher network and print its settings."`
}

type keysGenerate struct {
	remote
	ID   string `arg:"" help:"Id that the actor publishes for the key, such as https://social.example/users/frida#main-key"`
	Type string `help:"rsa, which all servers take, or ed25519." default:"rsa"`
}

// Run makes a key.
func (c keysGenerate) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, c.remote, out, http.MethodPost, "/v1/keys", client.NewKey{ID: c.ID, Type: c.Type}, showKey)
}

type keysPut struct {
	remote
	ID   string `arg:"" help:"Id that the actor publishes for the key."`
	File string `arg:"" help:"File with the private key in PEM; - is the standard input."`
}

// Run stores a key. It is read from a file, not from a flag, where every user of
// the machine could see it.
func (c keysPut) Run(ctx context.Context, out io.Writer) error {
	var pem []byte
	var err error
	if c.File == "-" {
		pem, err = io.ReadAll(os.Stdin)
	} else {
		pem, err = os.ReadFile(c.File)
	}
	if err != nil {
		return fmt.Errorf("read private key: %w", err)
	}
	return call(ctx, c.remote, out, http.MethodPut, "/v1/keys/"+url.PathEscape(c.ID), client.PrivateKey{PrivateKeyPEM: string(pem)}, showKey)
}

type keysShow struct {
	remote
	ID string `arg:"" help:"The key's id."`
}

// Run shows a key.
func (c keysShow) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, c.remote, out, http.MethodGet, "/v1/keys/"+url.PathEscape(c.ID), nil, showKey)
}

func showKey(out io.Writer, k client.Key) error {
	_, err := fmt.Fprintf(out, "%s (%s)\n%s", plain(k.ID), k.Type, k.PublicKeyPEM)
	return err
}

type sipherKeys struct {
	Origin string `arg:"" help:"Our own origin, such as https://social.example"`
}

// Run prints the settings. They hold private keys: whoever runs it stores them.
func (s sipherKeys) Run(out io.Writer) error {
	settings, err := crypto.GenerateIdentity(rand.Reader, s.Origin)
	if err != nil {
		return err
	}
	_, err = settings.WriteTo(out)
	return err
}
