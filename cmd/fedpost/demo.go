package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"fedpost/client"
	sample "fedpost/cmd/fedpost/demo"
	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
)

// limit is how long the demo may take.
const limit = 30 * time.Second

type demo struct {
	Keep bool `help:"Keep running afterwards, to look at the operator's page and try other commands. Ctrl-C ends it."`
}

// Run shows fedpost at work on a database that is thrown away.
//
// The log is off: the demo's servers fail on purpose, and the table shows the failures.
func (d demo) Run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "fedpost-demo-")
	if err != nil {
		return fmt.Errorf("directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	f, err := start(ctx, dir, local.ListenConfig{Listen: "127.0.0.1:0"}, true, hasten, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	s := screenOn(os.Stdout)
	fmt.Println("fedpost listening on", f.server.URL)
	fmt.Println(wrapped("For the demo a request times out after 1 s instead of 15 s, the first wait is 0.3 s instead of 5 s, and the schedule runs every second instead of every minute. Private addresses are allowed.", s.width, 0))
	api, err := client.New(f.server.URL)
	if err != nil {
		return f.stop(err, 5*time.Second)
	}
	o := sample.Options{
		Client: api, Out: os.Stdout,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), Width: s.width, Every: 200 * time.Millisecond, Limit: limit,
		Wrapped: func(text string, indent int) string { return wrapped(text, s.width, indent) },
	}
	if d.Keep {
		o.Then = func(ctx context.Context) error {
			fmt.Printf("\nThe operator's page: %[1]s/\nOther commands: FEDPOST_URL=%[1]s fedpost stats\nCtrl-C ends the demo, and nothing of it is kept.\n", f.server.URL)
			return f.server.Wait(ctx)
		}
	}
	return f.stop(sample.Run(ctx, o), 5*time.Second)
}

// hasten shortens waits of minutes, and removes tokens: the demo listens on loopback and needs none.
func hasten(s *settings) {
	s.Access = config.Access{}
	s.every = time.Second
	s.Outbound.Timeout = time.Second
	first := 300 * time.Millisecond
	s.Retry.First = &first
}
