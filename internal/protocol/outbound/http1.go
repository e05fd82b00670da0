package outbound

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// http1 sends requests on an HTTP/1 connection, one at a time, on the caller's goroutine, and has
// buffers only during a request. A connection of net/http has two goroutines and 8 KiB of buffers
// also while it is unused.
type http1 struct {
	conn net.Conn
	tls  *tls.Conn // below conn; nil: plain
	raw  net.Conn  // the socket
	over atomic.Bool
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

func newHTTP1(conn net.Conn, w *wire, raw net.Conn) *http1 {
	c := &http1{conn: conn, raw: raw}
	c.tls, _ = w.Conn.(*tls.Conn)
	return c
}

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
	if c.tls == nil {
		return nil
	}
	// With a deadline in the past, Read returns what has arrived already. If crypto/tls answers
	// it, that write fails, and so does every later one before a byte is sent.
	if err := c.tls.SetDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	if _, err := c.conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("unused connection: %w", errors.Join(err, io.EOF))
	}
	return c.tls.SetDeadline(time.Time{})
}

func (c *http1) Release() {}

// RoundTrip implements http.RoundTripper. The connection can be reused when the answer's body has
// been read to its end and closed.
func (c *http1) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &exchange{http1: c, ctx: r.Context(), limit: io.LimitedReader{R: c.conn, N: maxHeader}}
	if err := context.Cause(x.ctx); err != nil {
		return nil, err
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
		return nil, x.fail(err)
	}
	x.reader = readers.Get().(*bufio.Reader)
	x.reader.Reset(&x.limit)
	res, err := x.answer(r)
	if err != nil {
		return nil, x.fail(err)
	}
	x.limit.N = math.MaxInt64 // Client.Do bounds the body
	x.body, x.last, res.Body = res.Body, res.Close || res.StatusCode == http.StatusSwitchingProtocols, x
	x.whole = x.body == http.NoBody
	return res, nil
}

func (c *http1) write(r *http.Request) error {
	w := writers.Get().(*bufio.Writer)
	w.Reset(c.conn)
	err := r.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	return err
}

// exchange is a request under way, and the body of its answer.
type exchange struct {
	*http1
	ctx    context.Context
	keep   func() bool // stops cut; false: cut has run
	sent   chan error  // receives the result of writing a long request; nil: it was written
	limit  io.LimitedReader
	reader *bufio.Reader // of limit; nil when the exchange has ended
	body   io.Reader
	whole  bool // the body was read to its end
	last   bool // the connection takes no request after this one
}

// answer reads the header of the answer. Interim answers count towards its length.
func (x *exchange) answer(r *http.Request) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(x.reader, r)
		switch {
		case err != nil && x.limit.N <= 0:
			return nil, errLongHeader
		case err != nil:
			return nil, err
		case res.StatusCode < 100 || res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols:
			return res, nil
		}
	}
}

// fail ends an exchange without an answer, and returns the reason.
func (x *exchange) fail(err error) error {
	unsent := x.end(false)
	switch cause := context.Cause(x.ctx); {
	case cause != nil:
		return cause
	case unsent != nil && !errors.Is(unsent, net.ErrClosed):
		return unsent
	}
	return err
}

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
		_ = x.end(x.whole && !x.last && x.reader.Buffered() == 0 && x.wrote())
	}
	return nil
}

// wrote reports whether the request was sent whole.
func (x *exchange) wrote() bool {
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
