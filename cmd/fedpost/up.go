package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"time"
)

// grace is how long a stop waits for deliveries under way.
const grace = 30 * time.Second

type up struct {
	Listen       string `help:"Address to listen on. Anything but loopback needs FEDPOST_API_TOKEN." default:"127.0.0.1:8080"`
	Data         string `help:"Directory of the database and of sealing.key, which seals signing keys. Back up both." default:"./data" type:"path"`
	AllowPrivate bool   `help:"Allow plain http and private addresses, for trials."`
	CPUProfile   string `name:"cpu-profile" help:"Write a processor profile to this file at the end, for go tool pprof." type:"path" placeholder:"FILE"`
}

// Run serves until it is told to stop.
func (u *up) Run(ctx context.Context, log *slog.Logger) error {
	stop, err := profile(u.CPUProfile)
	if err != nil {
		return err
	}
	return errors.Join(u.serve(ctx, log), stop())
}

func (u *up) serve(ctx context.Context, log *slog.Logger) error {
	f, err := start(ctx, u.Data, u.Listen, u.AllowPrivate, nil, log)
	if err != nil {
		return err
	}
	fmt.Println("fedpost listening on", f.server.URL)
	fmt.Println("engine:", f.engine)
	err = f.server.Wait(ctx)
	return f.stop(err, grace)
}

// profile begins to record where processor time goes, if file is not empty. The returned
// function ends the recording.
func profile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("processor profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("processor profile: %w", err), f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}
