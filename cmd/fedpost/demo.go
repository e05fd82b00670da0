package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	sample "fedpost/cmd/fedpost/demo"
	"fedpost/internal/api/client"
	"fedpost/internal/app/local"
)

// limit is how long the demo may take.
const limit = 30 * time.Second

type demo struct{}

// Run shows fedpost at work on a database that is thrown away.
//
// The log is off: the demo's servers fail on purpose, and the table shows the failures.
func (demo) Run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "fedpost-demo-")
	if err != nil {
		return fmt.Errorf("directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, err := start(ctx, dir, local.Place{Listen: "127.0.0.1:0"}, true, hasten, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	fmt.Println("fedpost listening on", f.server.URL)
	fmt.Println("For the demo a request times out after 1 s instead of 15 s, the first wait is 0.3 s instead of 5 s,")
	fmt.Println("and the schedule runs every second instead of every minute. Private addresses are allowed.")
	err = sample.Run(ctx, sample.Options{
		Client: &client.Client{Base: f.server.URL}, Out: os.Stdout,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), Every: 200 * time.Millisecond,
	})
	return f.stop(err, 5*time.Second)
}

// hasten shortens the waits that would take minutes.
func hasten(s *settings) {
	s.every = time.Second
	s.Outbound.Timeout = time.Second
	first := 300 * time.Millisecond
	s.Retry.First = &first
}
