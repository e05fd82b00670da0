package outbound

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// http1 sends requests on an HTTP/1 connection, one at a time, on the caller's goroutine, and has
// buffers only during a request. A connection of net/http has two goroutines and 8 KiB of buffers
// also while it is unused.
type http1 struct {
	conn  net.Conn // TCP, or TLS above it
	raw   net.Conn // the socket
	over  atomic.Bool
	wrote atomic.Bool // a part of the request under way was written
}

const (
	// sentWhole is the longest body, in bytes, that every system's socket takes at once together
	// with its header. A longer one is sent while the answer is awaited, because some hosts
	// answer without reading all of it.
	sentWhole = 8 << 10
	// sentSoon is how long Close waits for the end of the request after the answer was read.
	sentSoon = 50 * time.Millisecond
)

var (
	writers = sync.Pool{New: func() any { return bufio.NewWriter(nil) }}
	readers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}
)

var errLongHeader = fmt.Errorf("the answer's header is longer than %d bytes", maxHeader)

// cut closes the socket, and so ends a request under way. Close of crypto/tls would wait for a
// write under way: without end, if the host reads nothing.
func (c *http1) cut() {
	c.over.Store(true)
	_ = c.raw.Close()
}

func (c *http1) Close() error {
	c.over.Store(true)
	return c.conn.Close()
}

func (c *http1) Err() error {
	if c.over.Load() {
		return net.ErrClosed
	}
	return nil
}

func (c *http1) Available() int {
	if c.over.Load() {
		return 0
	}
	return 1
}

// Reserve fails if the connection has ended. hungUp sees what is on the socket, but crypto/tls may
// have read the host's close-notify together with its last answer.
func (c *http1) Reserve() error {
	if c.over.Load() {
		return net.ErrClosed
	}
	secure, ok := c.conn.(*tls.Conn)
	if !ok {
		return nil
	}
	// With a deadline in the past, Read returns what has arrived already. If crypto/tls answers
	// that, its write fails, and so does every later one before a byte is sent.
	if err := secure.SetDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	if _, err := secure.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("unused connection: %w", errors.Join(err, io.EOF))
	}
	return secure.SetDeadline(time.Time{})
}

func (c *http1) Release() {}

// RoundTrip implements http.RoundTripper. The connection can be reused when the answer's body has
// been read to its end and closed.
func (c *http1) RoundTrip(r *http.Request) (*http.Response, error) {
	c.wrote.Store(false)
	x := &exchange{http1: c, ctx: r.Context()}
	x.limit = io.LimitedReader{R: incoming{x}, N: maxHeader}
	if err := context.Cause(x.ctx); err != nil {
		return nil, &unseenError{err}
	}
	x.keep = context.AfterFunc(x.ctx, c.cut)
	if r.ContentLength > sentWhole {
		x.sent = make(chan error, 1)
		go func() {
			err := c.write(r)
			if x.sent <- err; err != nil {
				c.cut() // nothing else ends the wait for the answer
			}
		}()
	} else if err := c.write(r); err != nil {
		return x.fail(r, 0, err)
	}
	x.reader = readers.Get().(*bufio.Reader)
	x.reader.Reset(&x.limit)
	res, status, err := x.answer(r)
	if err != nil {
		return x.fail(r, status, err)
	}
	x.limit.N = math.MaxInt64 // Client.Do bounds the body
	x.body, x.last, res.Body = res.Body, res.Close || res.StatusCode == http.StatusSwitchingProtocols, x
	x.whole = x.body == http.NoBody
	return res, nil
}

func (c *http1) write(r *http.Request) error {
	w := writers.Get().(*bufio.Writer)
	w.Reset(c)
	err := r.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	return err
}

// Write hides that the host has closed the connection: the host may have answered before it read the
// whole request. Reading returns the answer or the end of the connection.
func (c *http1) Write(p []byte) (int, error) {
	n, err := c.conn.Write(p)
	if n > 0 {
		c.wrote.Store(true)
	}
	if err != nil {
		c.over.Store(true)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return len(p), nil
		}
	}
	return n, err
}

// exchange is a request under way, and the body of its answer.
type exchange struct {
	*http1
	ctx    context.Context
	keep   func() bool // stops cut; false: cut has run
	sent   chan error  // receives the result of writing a long request; nil: it was written
	failed error       // that statusLine got, and http.ReadResponse gets, too
	limit  io.LimitedReader
	reader *bufio.Reader // of limit; nil when the exchange has ended
	body   io.Reader
	whole  bool // the body was read to its end
	last   bool // the connection takes no request after this one
}

// incoming is what the host sends.
type incoming struct{ *exchange }

func (i incoming) Read(p []byte) (int, error) {
	if err := i.failed; err != nil {
		i.failed = nil
		return 0, err
	}
	return i.conn.Read(p)
}

// answer reads the header of the answer. Interim answers count towards its length. If the answer cannot
// be read, status is that of its status line; 0: none has come.
func (x *exchange) answer(r *http.Request) (res *http.Response, status int, err error) {
	for {
		status = x.statusLine()
		res, err = http.ReadResponse(x.reader, r)
		switch {
		case err != nil && x.limit.N <= 0:
			return nil, status, errLongHeader
		case err != nil:
			return nil, status, err
		case !interim(res.StatusCode):
			return res, status, nil
		}
	}
}

func interim(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}

// statusLine waits for a line, and returns its status; 0: the line is not the status line of a final
// answer, or does not end within the buffer of x.reader.
func (x *exchange) statusLine() int {
	for n := 1; ; n = x.reader.Buffered() + 1 {
		_, err := x.reader.Peek(n)
		seen, _ := x.reader.Peek(x.reader.Buffered())
		line, _, ended := bytes.Cut(seen, []byte("\n"))
		switch status := statusOf(line); {
		case ended && !interim(status):
			return status
		case ended, errors.Is(err, bufio.ErrBufferFull):
			return 0
		case err != nil:
			x.failed = err
			return 0
		}
	}
}

// statusOf returns the status of a status line (RFC 9112, section 4); 0: line is none. It
// takes what net/http takes, such as several spaces before the status.
func statusOf(line []byte) int {
	version, rest, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
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

// fail ends an exchange whose answer cannot be read: see pool.RoundTrip.
func (x *exchange) fail(r *http.Request, status int, err error) (*http.Response, error) {
	unsent := x.end(false)
	switch cause := context.Cause(x.ctx); {
	case cause != nil:
		err = cause
	case unsent != nil && !errors.Is(unsent, net.ErrClosed):
		err = unsent
	}
	switch {
	case status != 0:
		return answered(r, status, err), nil
	case !x.wrote.Load():
		return nil, &unseenError{err}
	case x.limit.N == maxHeader && x.ctx.Err() == nil && errors.Is(err, net.ErrClosed):
		return nil, fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return nil, err
}

// answered returns an answer of which only the status is known.
func answered(r *http.Request, status int, err error) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: io.NopCloser(broken{err}), ContentLength: -1, Request: r,
	}
}

// broken is a body that cannot be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func (x *exchange) Read(p []byte) (int, error) {
	if x.reader == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.body.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		x.whole = true
	case err != nil && x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
	}
	return n, err
}

// Close ends the exchange, and closes the connection if a part of the answer is unread.
func (x *exchange) Close() error {
	if x.reader != nil {
		_ = x.end(x.whole && !x.last && x.reader.Buffered() == 0 && x.wroteAll())
	}
	return nil
}

// wroteAll reports whether the request was sent whole.
func (x *exchange) wroteAll() bool {
	if x.sent == nil {
		return true
	}
	soon := time.NewTimer(sentSoon)
	defer soon.Stop()
	select {
	case err := <-x.sent:
		x.sent = nil
		return err == nil
	case <-soon.C:
		return false
	}
}

// end returns why a long request was not sent whole. After end, nothing reads the request any more.
func (x *exchange) end(reuse bool) (unsent error) {
	if kept := x.keep(); !kept || !reuse {
		x.cut()
		if x.sent != nil {
			unsent = <-x.sent // soon, as the connection is closed
		}
	}
	if x.reader != nil {
		x.reader.Reset(nil)
		readers.Put(x.reader)
		x.reader = nil
	}
	return unsent
}
