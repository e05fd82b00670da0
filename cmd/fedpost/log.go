package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// logTo returns the handler of the log: JSON, or on a terminal text with fewer lines.
func logTo(f *os.File, level slog.Level) slog.Handler {
	if !term.IsTerminal(int(f.Fd())) {
		return slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level})
	}
	return forReading(f, level, time.Now)
}

func forReading(w io.Writer, level slog.Level, now func() time.Time) slog.Handler {
	return sparing{slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}), &printed{at: map[string]time.Time{}, now: now}}
}

// sparing drops lines that repeat one about the same host within a minute, except errors.
type sparing struct {
	slog.Handler
	lines *printed
}

// printed has when each line was printed last.
type printed struct {
	mu  sync.Mutex
	at  map[string]time.Time
	now func() time.Time
}

const (
	sparingFor = time.Minute
	// mostLines is how many lines are remembered.
	mostLines = 1000
)

// Handle implements slog.Handler.
func (s sparing) Handle(ctx context.Context, r slog.Record) error {
	host := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "host" {
			host = a.Value.String()
		}
		return host == ""
	})
	if host != "" && r.Level < slog.LevelError && s.lines.again(r.Message+" "+host) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s sparing) WithAttrs(as []slog.Attr) slog.Handler {
	return sparing{s.Handler.WithAttrs(as), s.lines}
}

// WithGroup implements slog.Handler.
func (s sparing) WithGroup(name string) slog.Handler {
	return sparing{s.Handler.WithGroup(name), s.lines}
}

// again reports whether a line was printed less than sparingFor ago.
func (l *printed) again(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if at, ok := l.at[line]; ok && now.Sub(at) < sparingFor {
		return true
	}
	if len(l.at) >= mostLines {
		clear(l.at)
	}
	l.at[line] = now
	return false
}
