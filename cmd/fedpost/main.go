// Command fedpost runs fedpost on one machine and talks to it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands are the command line. Settings that both `up` and the Lambda
// functions know are environment variables; flags are for what only a command
// line has.
type commands struct {
	Up   up   `cmd:"" help:"Run everything in one process, as a server."`
	Demo demo `cmd:"" help:"Send real activities to sample servers that accept, stumble, vanish and hang, and watch."`
	Keys keys `cmd:"" help:"Make keys."`

	LogLevel slog.Level `help:"Least level of log lines: DEBUG, INFO, WARN or ERROR." default:"WARN" env:"FEDPOST_LOG_LEVEL"`
}

func main() {
	var c commands
	k := kong.Parse(&c, kong.Name("fedpost"),
		kong.Description("A delivery queue for federated servers. Settings: docs/configuration.md."),
		kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	k.BindTo(ctx, (*context.Context)(nil))
	err := k.Run(log)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fedpost:", err)
		os.Exit(1)
	}
}
