package outbound

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
)

// wire is an HTTP/1 connection that records what net/http's errors do not say: whether any
// byte of a request was written, and which status the host answered.
type wire struct {
	net.Conn // TCP, or TLS above it

	mu      sync.Mutex
	busy    bool // a request is under way
	wrote   bool // a part of the request was written
	heard   bool // a part of an answer came
	broken  bool // a write failed
	answers statusReader
}

func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.wrote, w.heard, w.answers = true, false, false, statusReader{line: w.answers.line[:0]}
}

// end reports whether the connection can be used again after a request.
func (w *wire) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	return !w.broken
}

// state says whether any of the request was written, whether anything was answered, and with which
// status; 0: none has come.
func (w *wire) state() (wrote, heard bool, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrote, w.heard, w.answers.status
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy {
		// The host sent this without a request. net/http would write it to the log.
		return 0, io.EOF
	}
	w.heard = true
	w.answers.read(p[:n])
	return n, err
}

// Write hides that the host has closed the connection: the host may have answered before it read the
// whole request, and net/http would not read the answer after a failed write. The read under way
// returns the answer or the end of the connection.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = w.wrote || n > 0
	if err != nil {
		w.broken = true
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return len(p), nil
		}
	}
	return n, err
}

// statusReader finds the status in the bytes of an answer. Interim answers (1xx
// except 101) do not count.
type statusReader struct {
	status int
	line   []byte // the beginning of the line that is being read
	header bool   // in the header of an interim answer
	done   bool
}

// maxStatusLine is how many bytes of a line are searched for a status.
const maxStatusLine = 32

func (s *statusReader) read(p []byte) {
	for len(p) > 0 && !s.done {
		rest := p
		i := bytes.IndexByte(p, '\n')
		if i >= 0 {
			p, rest = p[:i], p[i+1:]
		}
		s.line = append(s.line, p[:min(len(p), maxStatusLine-len(s.line))]...)
		if i < 0 {
			return
		}
		s.lineEnd()
		s.line, p = s.line[:0], rest
	}
}

func (s *statusReader) lineEnd() {
	line := bytes.TrimSuffix(s.line, []byte("\r"))
	if s.header {
		s.header = len(line) > 0
		return
	}
	status := statusOf(line)
	if status >= 100 && status < 200 && status != 101 {
		s.header = true
		return
	}
	s.status, s.done = status, true
}

// statusOf returns the status of a status line (RFC 9112, section 4); 0: line is none. It
// takes what net/http takes, such as several spaces before the status.
func statusOf(line []byte) int {
	version, rest, ok := bytes.Cut(line, []byte(" "))
	if _, _, valid := http.ParseHTTPVersion(string(version)); !ok || !valid {
		return 0
	}
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	status, err := strconv.Atoi(string(code))
	if len(code) != 3 || err != nil || status < 100 {
		return 0
	}
	return status
}
