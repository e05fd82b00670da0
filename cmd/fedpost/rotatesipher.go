package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"fedpost/client"
	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/protocol/sipher/crypto"
)

type rotateSipher struct {
	reach
	File         string   `arg:"" help:"File with the new identity, as fedpost keys sipher printed it. The present one is read from the environment (FEDERATION_PRIVATE_KEY and the others)."`
	At           []string `help:"Only at this server, such as one that was down before. Repeat the flag for more." sep:"none" placeholder:"URL"`
	AllowPrivate bool     `help:"Allow plain http and private addresses, for trials."`
}

// Run proves the new keys to each server. It reads private keys, so it runs where the operator
// has them and not in a function that strangers reach.
func (c rotateSipher) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	var settings struct {
		SipherIdentity config.SipherIdentity
		SipherSecrets  config.SipherSecrets
		Outbound       config.Outbound
	}
	if err := config.Load(&settings); err != nil {
		return err
	}
	before, err := wholeIdentity(settings.SipherIdentity, settings.SipherSecrets, "the present identity, in the environment")
	if err != nil {
		return err
	}
	after, err := c.after()
	if err != nil {
		return err
	}
	if after.Origin != before.Origin || after.PublicKey == before.PublicKey || after.EncryptionKey == before.EncryptionKey {
		return mistaken("%s has to hold two new key pairs and the same origin: fedpost keys sipher %s > FILE", c.File, before.Origin)
	}
	rotation, err := app.Ports{AllowPrivate: c.AllowPrivate, Log: log}.Rotation(settings.Outbound, before, after)
	if err != nil {
		return err
	}
	servers, err := collect(api.Servers(ctx, client.ServerQuery{Protocol: "sipher"}))
	if err != nil {
		return err
	}
	servers = slices.DeleteFunc(servers, func(s client.Server) bool {
		return s.Keys == nil || len(c.At) > 0 && !slices.Contains(c.At, s.Name)
	})
	rows, failed := make([][]string, len(servers)), 0
	for i, s := range servers {
		rows[i] = []string{s.Name, "changed", ""}
		if err := rotation.At(ctx, s.Name, s.Keys.Encryption); err != nil {
			rows[i] = []string{s.Name, "not changed", err.Error()}
			failed++
		}
	}
	err = table(out, []string{"SERVER", "KEYS", "FAULT"}, rows)
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d servers have not confirmed the new keys: try them again with --at before you put the new settings in place", failed, len(servers))
	case len(servers) == 0:
		return mistaken("there is no such server: fedpost servers list --protocol sipher")
	}
	return nil
}

// after reads the new identity.
func (c rotateSipher) after() (crypto.Identity, error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return crypto.Identity{}, fmt.Errorf("read the new identity: %w", err)
	}
	environ := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			environ[name] = value
		}
	}
	var settings struct {
		SipherIdentity config.SipherIdentity
		SipherSecrets  config.SipherSecrets
	}
	if err := config.From(&settings, environ); err != nil {
		return crypto.Identity{}, fmt.Errorf("%s: %w", c.File, err)
	}
	return wholeIdentity(settings.SipherIdentity, settings.SipherSecrets, c.File)
}

func wholeIdentity(public config.SipherIdentity, secrets config.SipherSecrets, where string) (crypto.Identity, error) {
	id, err := secrets.Load(public)
	if err == nil {
		err = id.Ready()
	}
	if err != nil {
		return id, fmt.Errorf("%s: %w", where, err)
	}
	return id, nil
}
