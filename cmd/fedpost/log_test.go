package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestATerminalGetsALineAMinuteAboutAHost, and every error.
func TestATerminalGetsALineAMinuteAboutAHost(t *testing.T) {
	var b bytes.Buffer
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := forReading(&b, slog.LevelWarn, func() time.Time { return now })
	log := slog.New(h).With("process", 1)
	printed := func() int { n := strings.Count(b.String(), "\n"); b.Reset(); return n }
	for range 20 {
		log.Warn("attempt failed", "host", "a.example")
		log.Warn("attempt failed", "host", "b.example")
	}
	if n := printed(); n != 2 {
		t.Errorf("%d lines about two hosts", n)
	}
	log.Error("attempt failed", "host", "a.example")
	log.Warn("table is away")
	log.Warn("table is away")
	if n := printed(); n != 3 {
		t.Errorf("%d lines of 3 that have to be printed", n)
	}
	now = now.Add(sparingFor)
	log.Warn("attempt failed", "host", "a.example")
	if n := printed(); n != 1 {
		t.Errorf("%d lines a minute later", n)
	}
	for n := range 3 * mostLines {
		log.Warn("attempt failed", "host", fmt.Sprint(n))
	}
	if n := len(h.(sparing).lines.at); n > mostLines {
		t.Errorf("%d lines are remembered, at most %d may be", n, mostLines)
	}
}
