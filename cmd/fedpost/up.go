package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/coreos/go-systemd/v22/daemon"

	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
)

// grace is how long a stop waits for deliveries under way.
const grace = 30 * time.Second

type up struct {
	Listen       string `help:"Address to listen on, or unix:PATH for a Unix socket. Other addresses than loopback need FEDPOST_API_TOKEN." default:"127.0.0.1:8080" env:"FEDPOST_LISTEN"`
	TLSCert      string `name:"tls-cert" help:"Serve HTTPS with the certificate chain in this PEM file. It is read again when it changes." placeholder:"FILE" and:"tls" env:"FEDPOST_TLS_CERT"`
	TLSKey       string `name:"tls-key" help:"The private key of --tls-cert, PEM." placeholder:"FILE" and:"tls" env:"FEDPOST_TLS_KEY"`
	Data         string `help:"Data folder: has the database, unless it is PostgreSQL, and sealing.key, which encrypts signing keys. Back up both." default:"./data" type:"path"`
	Database     string `help:"PostgreSQL database to run on instead of a file. Put a password into DATABASE_URL: other users of the machine can see flags." placeholder:"URL"`
	AllowPrivate bool   `help:"Allow plain http and private addresses, for trials."`
	CPUProfile   string `name:"cpu-profile" help:"Write a processor profile to this file at the end, for go tool pprof." type:"path" placeholder:"FILE"`
}

// Run serves until it is stopped.
func (u *up) Run(ctx context.Context, log *slog.Logger) error {
	stop, err := profile(u.CPUProfile)
	if err != nil {
		return err
	}
	return errors.Join(u.serve(ctx, log), stop())
}

func (u *up) serve(ctx context.Context, log *slog.Logger) error {
	if u.Database != "" {
		// All settings are read from the environment, where the URL may be, too.
		if err := os.Setenv(config.DatabaseURL, u.Database); err != nil {
			return fmt.Errorf("--database: %w", err)
		}
	}
	limitMemory(memlimit.FromCgroup, log)
	spareMemory()
	at := local.ListenConfig{Listen: u.Listen, Cert: u.TLSCert, Key: u.TLSKey}
	f, err := start(ctx, u.Data, at, u.AllowPrivate, nil, log)
	if err != nil {
		return err
	}
	fmt.Println("fedpost listening on", f.server.URL)
	fmt.Println("engine:", f.engine)
	fmt.Println("RSA signatures:", f.signer)
	notify(daemon.SdNotifyReady, log)
	err = f.server.Wait(ctx)
	notify(daemon.SdNotifyStopping, log)
	return f.stop(err, grace)
}

// notify reports a change to systemd, if fedpost runs as a service of Type=notify.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Error("systemd was not notified", "state", state, "error", err)
	}
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
