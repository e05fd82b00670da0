package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"iter"
	"os"

	"fedpost/client"
	"fedpost/internal/keys"
	"fedpost/internal/protocol/sipher/crypto"
)

type keysCommand struct {
	Generate keysGenerate `cmd:"" help:"Make a signing key. The private key never leaves the server."`
	Put      keysPut      `cmd:"" help:"Store a signing key that you have."`
	Import   keysImport   `cmd:"" help:"Store many signing keys from a file, to move a server to fedpost."`
	List     keysList     `cmd:"" help:"List signing keys."`
	Show     keysShow     `cmd:"" help:"Show the public half of a signing key."`
	Rotate   keysRotate   `cmd:"" help:"Replace a signing key with a new one, and print its public key to publish."`
	Delete   keysDelete   `cmd:"" help:"Delete a signing key for good."`
	Sipher   sipherKeys   `cmd:"" help:"Make an identity for a Sipher network and print its settings."`

	RotateSipher rotateSipher `cmd:"" help:"Change your keys at the servers of a Sipher network. The servers get proofs of the old and the new keys."`
}

type keysGenerate struct {
	remote
	ID   string `arg:"" help:"Id that the actor publishes for the key, such as https://social.example/users/frida#main-key"`
	Type string `help:"rsa, which all servers take, or ed25519." enum:"rsa,ed25519" default:"rsa"`
}

func (c keysGenerate) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, c.remote, out, func(api *client.Client) (client.Key, error) { return api.GenerateKey(ctx, c.ID, c.Type) }, showKey)
}

type keysPut struct {
	remote
	ID   string `arg:"" help:"Id that the actor publishes for the key."`
	File string `arg:"" help:"File with the private key, in PEM or as a JWK; - is the standard input."`
}

// Run stores a key from a file: other users of the machine can see flags.
func (c keysPut) Run(ctx context.Context, out io.Writer) error {
	pem, err := readAll(c.File, os.Stdin)
	if err != nil {
		return fmt.Errorf("read private key: %w", err)
	}
	return call(ctx, c.remote, out, func(api *client.Client) (client.StoredKey, error) { return api.PutKey(ctx, c.ID, string(pem)) }, showStored)
}

type keysShow struct {
	remote
	ID string `arg:"" help:"The key's id."`
}

func (c keysShow) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, c.remote, out, func(api *client.Client) (client.Key, error) { return api.Key(ctx, c.ID) }, showKey)
}

func showKey(out io.Writer, k client.Key) error {
	_, err := fmt.Fprintf(out, "%s (%s)\n%s", plain(k.ID), k.Type, k.PublicKeyPEM)
	return err
}

func showStored(out io.Writer, k client.StoredKey) error {
	if err := showKey(out, k.Key); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Every process signs with it from %s on.\n", when(k.EffectiveBy))
	return err
}

type keysList struct {
	remote
	Limit positive `help:"List at most this many." default:"100"`
}

func (c keysList) Run(ctx context.Context, out io.Writer) error {
	entries := func(api *client.Client) iter.Seq2[client.Key, error] { return api.Keys(ctx, int(c.Limit)) }
	return list(ctx, c.remote, out, c.Limit, entries, func(out io.Writer, all []client.Key) error {
		return table(out, []string{"TYPE", "ID"}, rowsOf(all, func(k client.Key) []string { return []string{k.Type, k.ID} }))
	})
}

type keysRotate struct {
	remote
	ID   string `arg:"" help:"The key's id."`
	Type string `help:"rsa or ed25519. Default: the type of the key that is replaced." enum:"rsa,ed25519," default:""`
}

// Run makes a key here, so that its public key can be published as soon as it is used.
func (c keysRotate) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	before, err := api.Key(ctx, c.ID)
	if err != nil {
		return err
	}
	text, err := keys.GeneratePEM(keys.Type(cmp.Or(c.Type, before.Type)))
	if err != nil {
		return err
	}
	return call(ctx, c.remote, out, func(api *client.Client) (client.StoredKey, error) { return api.PutKey(ctx, c.ID, text) }, showStored)
}

type keysDelete struct {
	remote
	ID    string `arg:"" help:"The key's id."`
	Force bool   `help:"Delete it even if deliveries need it: these fail."`
}

func (c keysDelete) Run(ctx context.Context, out io.Writer) error {
	forget := func(api *client.Client) (client.DeletedKey, error) { return api.DeleteKey(ctx, c.ID, c.Force) }
	return call(ctx, c.remote, out, forget, func(out io.Writer, k client.DeletedKey) error {
		_, err := fmt.Fprintf(out, "%s: deleted; %s needed it\n", plain(k.ID), amount(k.Waiting, k.AtLeast))
		return err
	})
}

type sipherKeys struct {
	Origin string `arg:"" help:"Your server's origin, such as https://social.example"`
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
