package outbound

import (
	"bytes"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"testing"

	"fedpost/internal/activity/outcome"
)

// lines is an output that can be read while it is written to.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// TestNothingUnaskedReachesTheLog: net/http writes to the log what comes on a
// connection on which nothing is due.
func TestNothingUnaskedReachesTheLog(t *testing.T) {
	before := log.Writer()
	t.Cleanup(func() { log.SetOutput(before) })
	var out lines
	log.SetOutput(&out)
	client := trial(t, nil)
	closed := make(chan struct{})
	url := "http://" + listen(t, func(conn net.Conn) {
		say("HTTP/1.1 202 Accepted\r\nContent-Length: 1\r\n\r\nx" + strings.Repeat("unasked", 500))(conn)
		_, _ = io.Copy(io.Discard, conn) // until the other side has closed
		close(closed)
	})
	if _, err := post(t, client, url); err != nil {
		t.Error(err)
	}
	<-closed
	log.Print("something else \x1b[2J", strings.Repeat("z", 5000))
	if s := out.String(); strings.Contains(s, "unasked") || !strings.Contains(s, "something else") ||
		strings.Contains(s, "\x1b") || len(s) > outcome.MaxText+1 || !strings.HasSuffix(s, "\n") {
		t.Errorf("%d bytes: %.100q", len(s), s)
	}
}
