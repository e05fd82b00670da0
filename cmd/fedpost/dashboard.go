package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"fedpost/internal/api/page"
	"fedpost/internal/app/local"
)

// dashboard serves the page of any fedpost on this machine, with the credentials of
// whoever runs it.
type dashboard struct {
	reach
	Listen string `help:"Loopback address to listen on." default:"127.0.0.1:8081"`
}

// Run serves until it is interrupted. As other users of the machine can reach the address, the page asks
// for a secret, which only the printed link has.
func (d dashboard) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	api, err := d.client(ctx)
	if err != nil {
		return err
	}
	secret := rand.Text()
	p := page.New(page.Options{
		Enter: page.ByLink(api, secret), Link: true, Secret: "secret of the link that fedpost dashboard printed", Of: d.URL, Now: time.Now, Log: log,
	})
	return local.ServeLoopback(ctx, d.Listen, p, log, func(at string) error {
		_, err := fmt.Fprintf(out, "The page of %s, for whoever has this link:\n%s/sign-in?secret=%s\n", d.URL, at, url.QueryEscape(secret))
		return err
	})
}
