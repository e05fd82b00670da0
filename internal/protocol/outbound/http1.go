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

// http1 sends requests on an HTTP/1 connection, one after the other, on the goroutine of
// whoever sends, and has buffers only while a request is under way. net/http writes and reads
// the messages. Its own connections have two goroutines and 8 KiB of buffers each, also while
// they are unused.
type http1 struct {
	conn net.Conn
	tls  *tls.Conn // below conn; nil: plain
	raw  net.Conn  // the socket
	over atomic.Bool
}

// Bounds of a request and its answer.
const (
	// sentWhole is the longest body, in bytes, that the socket of any system takes in whole
	// together with its header. A longer one is sent while the answer is awaited, because
	// some hosts answer and read no more.
	sentWhole = 8 << 10
	// sentSoon is how long the answer's reader waits for the end of the request, before it
	// takes the host for one that read no more.
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

// cut ends the connection, and a request under way. It does without Close of crypto/tls, which
// waits for an answer to a KeyUpdate or a broken record that is being written: without end, if
// the host reads nothing.
func (c *http1) cut() {
	c.over.Store(true)
	_ = c.raw.Close()
}

// Close ends a connection without a request.
func (c *http1) Close() error {
	c.over.Store(true)
	return c.conn.Close()
}

// Err says that the connection has ended.
func (c *http1) Err() error {
	if c.over.Load() {
		return net.ErrClosed
	}
	return nil
}

// Available is how many requests the connection can take.
func (c *http1) Available() int {
	if c.over.Load() {
		return 0
	}
	return 1
}

// Reserve fails if the connection has ended. Of an unused connection the socket says so
// (hungUp), but crypto/tls may have read the host's farewell together with its last answer.
func (c *http1) Reserve() error {
	if c.over.Load() {
		return net.ErrClosed
	}
	if c.tls == nil {
		return nil
	}
	// With a deadline in the past, Read looks at what is here already, and at nothing else. An
	// answer of crypto/tls to it fails, where the host may read nothing, and every later write
	// then fails before a byte is sent.
	if err := c.tls.SetDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	if _, err := c.conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("unused connection: %w", errors.Join(err, io.EOF))
	}
	return c.tls.SetDeadline(time.Time{})
}

// Release gives back what Reserve reserved.
func (c *http1) Release() {}

// RoundTrip implements http.RoundTripper. The connection can be used again when the answer's
// body has been read to its end and closed.
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

// write sends r.
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
	keep   func() bool // keeps the connection when ctx ends; false: it has been closed
	sent   chan error  // how a long request was sent; nil: it was
	limit  io.LimitedReader
	reader *bufio.Reader // of limit; nil when the exchange has ended
	body   io.Reader
	whole  bool // the body was read to its end
	last   bool // the connection takes no request after this one
}

// answer reads the header of the answer. Interim answers count in the length of the header.
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

// fail ends an exchange without an answer, and says why there is none.
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

// Read reads the body of the answer.
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

// Close ends the exchange. If something of the answer is left, the connection is closed: it
// may have no end.
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

// end returns why a long request was not sent whole. When it returns, nothing reads the
// request any more: the caller may change it.
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
