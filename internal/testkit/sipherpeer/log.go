package sipherpeer

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
)

// Log keeps what a slog.JSONHandler writes, for tests to read while others write.
// Its zero value is ready.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Lines returns the lines with a message. It ends the test at a line that is no JSON.
func (l *Log) Lines(t testing.TB, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(l.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m["msg"] == message {
			found = append(found, m)
		}
	}
	return found
}
