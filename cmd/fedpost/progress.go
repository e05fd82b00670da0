package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"fedpost/internal/app/progress"
)

// shown returns a context whose work is shown on standard error, step by step, until stop is
// called.
func shown(ctx context.Context) (_ context.Context, stop func()) {
	var s steps
	return progress.With(ctx, s.begin), showing(s.String)
}

// showing says on standard error how far a long command is until stop is called: each second in
// place on a terminal, else a line each ten seconds.
func showing(say func() string) (stop func()) {
	to := os.Stderr
	every, format, end := 10*time.Second, "%s\n", ""
	if term.IsTerminal(int(to.Fd())) {
		every, format, end = time.Second, "\r\x1b[K%s", "\r\x1b[K"
	}
	return showingOn(to, every, format, end, say)
}

func showingOn(to io.Writer, every time.Duration, format, end string, say func() string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				_, _ = io.WriteString(to, end) // it only cleans up
				return
			case <-tick.C:
				if text := say(); text != "" {
					_, _ = fmt.Fprintf(to, format, text) // the command goes on where nobody reads
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// left says how much of a step is done, and when the rest will be at the present pace, if that is
// known.
func left(begun time.Time, done, all int64) string {
	switch {
	case all <= 0 && done <= 0:
		return ""
	case all <= 0:
		return fmt.Sprintf(", %d", done)
	}
	done = min(max(done, 0), all)
	text := fmt.Sprintf(", %d %%", 100*done/all)
	if done > 0 {
		rest := float64(all-done) / float64(done)
		text += fmt.Sprintf(", about %s left", time.Duration(rest*float64(time.Since(begun))).Round(time.Second))
	}
	return text
}

// steps is the step that work is at. The zero value is at none.
type steps struct {
	mu    sync.Mutex
	what  string
	part  progress.Part
	begun time.Time
}

func (s *steps) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.part == nil {
		return s.what
	}
	done, all := s.part()
	return s.what + left(s.begun, done, all)
}

func (s *steps) begin(what string, part progress.Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what, s.part, s.begun = what, part, time.Now()
}
