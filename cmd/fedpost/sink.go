package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"fedpost/cmd/fedpost/sink"
)

type sinkCommand struct {
	reach
	Listen string `help:"Address to listen on." default:"127.0.0.1:8090"`
}

// Run receives until it is stopped.
func (c sinkCommand) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	server := &http.Server{
		Handler: printing(out, sink.Inbox{Key: sink.KeysOf(api), Now: time.Now}), ReadHeaderTimeout: grace,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns the error
	defer stop()
	if _, err := fmt.Fprintf(out, "sink listening; inboxes are http://%[1]s/ANYTHING, such as http://%[1]s/users/mo/inbox\n", l.Addr()); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("sink: %w", err)
	}
	return nil
}

// printing returns the inbox with a line for each request.
func printing(out io.Writer, in sink.Inbox) sink.Inbox {
	var lines sync.Mutex
	say := func(r *http.Request, status int, text string) {
		lines.Lock()
		defer lines.Unlock()
		// A sink whose output is gone still answers.
		_, _ = fmt.Fprintf(out, "%s %d %s %s\n", in.Now().Format(time.TimeOnly), status, plain(r.URL.Path), plain(text))
	}
	in.Answer = func(w http.ResponseWriter, r *http.Request, p sink.Post) {
		say(r, http.StatusAccepted, fmt.Sprintf("%s %s, %d bytes, signed with %s", p.Type, p.ID, p.Bytes, p.KeyID))
		w.WriteHeader(http.StatusAccepted)
	}
	in.Refused = func(r *http.Request, why error) { say(r, http.StatusUnauthorized, why.Error()) }
	return in
}
