package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// grace is how long a stop waits for deliveries under way.
const grace = 30 * time.Second

type up struct {
	Listen       string `help:"Address to listen on. Anything but loopback needs FEDPOST_API_TOKEN." default:"127.0.0.1:8080"`
	Data         string `help:"Directory of the database and of sealing.key, which seals signing keys. Back up both." default:"./data" type:"path"`
	AllowPrivate bool   `help:"Allow plain http and private addresses, for trials."`
}

// Run serves until it is told to stop.
func (u *up) Run(ctx context.Context, log *slog.Logger) error {
	f, err := start(ctx, u.Data, u.Listen, u.AllowPrivate, nil, log)
	if err != nil {
		return err
	}
	fmt.Println("fedpost listening on", f.server.URL)
	fmt.Println("engine:", f.engine)
	err = f.server.Wait(ctx)
	return f.stop(err, grace)
}
