// Package outbound is the HTTP client for talking to strangers. Everything that
// it sends goes to an address that somebody else chose, and everything that it
// reads was written by somebody else, so it trusts neither.
//
// The address is judged when it is dialled, after the name was resolved. Every
// wait has an end and every read a limit. Nothing is followed: a signature
// covers the address that it was made for, so a redirect would have to be
// signed again by whoever asked for it. No cookies, no proxy from the
// environment, no decompression.
//
// It is made for many hosts and few requests to each: connections and TLS
// sessions are kept for a while, but never many.
package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/net/http/httpguts"

	"fedpost/internal/activity/outcome"
)

// MaxBody is how much of an answer's body is read unless configured, in bytes.
const MaxBody = 64 << 10

// Client sends requests to strangers. It is safe for concurrent use; make one
// and keep it, as it holds the connections.
type Client struct {
	transport http.RoundTripper
	userAgent string
	plainHTTP bool
	timeout   time.Duration
	body      time.Duration
	maxBody   int
	turns     *turns
}

// New returns a client, or an error that names what is wrong with the
// configuration.
func New(c Config) (*Client, error) {
	if c.UserAgent == "" || !httpguts.ValidHeaderFieldValue(c.UserAgent) {
		return nil, fmt.Errorf("user agent %q cannot be sent; use the form fedpost/1.2 (+https://example.com/)", c.UserAgent)
	}
	quieten()
	client := &Client{
		transport: c.Transport,
		userAgent: c.UserAgent,
		plainHTTP: c.AllowHTTP || c.AllowPrivate,
		timeout:   cmp.Or(c.Timeout, 15*time.Second),
		body:      cmp.Or(c.Body, 3*time.Second),
		maxBody:   cmp.Or(c.MaxBody, MaxBody),
		turns:     newTurns(runtime.GOMAXPROCS(0)),
	}
	if client.transport == nil {
		now := c.Now
		if now == nil {
			now = time.Now
		}
		client.transport = newPool(newTransport(c, client.timeout, client.turns), now)
	}
	return client, nil
}

// Timeout is the longest that Do takes.
func (c *Client) Timeout() time.Duration { return c.timeout }

// ErrTimeout is the cause of a request's end when its time was up. Callers that
// bound several requests together end their context with this cause to have
// that counted as the host's fault.
var ErrTimeout = outcome.ErrTimeout

// ErrStopped says that the caller's context ended first: that says nothing
// about the host.
var ErrStopped = errors.New("stopped before an answer came")

// ErrNoRoom says that this machine has no file, port or memory left for another
// connection, which says nothing about the host either. It wraps ErrStopped.
var ErrNoRoom = fmt.Errorf("%w: this machine has no room for another connection", ErrStopped)

// Answer is what a host answered.
type Answer struct {
	Status int
	Header http.Header
	// Body is the beginning of the body, at most Config.MaxBody bytes.
	Body []byte
	// BodyErr says why Body is not the whole body: ErrTooLong, or what went
	// wrong while it was read. The status holds all the same.
	BodyErr error
	// Proto is the protocol's version, such as HTTP/2.0.
	Proto string
}

// ErrTooLong says that a body is longer than Config.MaxBody.
var ErrTooLong = errors.New("body is longer than is read")

// Do sends r, made by NewRequest, and reads the answer. An error means that no
// answer came, and ReasonOf classifies it; any status is an answer, redirects
// included, also if the rest of the answer cannot be read (Answer.BodyErr). A
// request is never sent twice, except where the host cannot have looked at the
// first: nothing of it was written, or an HTTP/2 server said so.
func (c *Client) Do(ctx context.Context, r *http.Request) (Answer, error) {
	if err := c.check(r); err != nil {
		return Answer{}, brief(err)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.timeout, func() { cancel(ErrTimeout) })
	defer timer.Stop()

	progress := &trace{}
	r = r.WithContext(progress.attach(inner))
	r.Header.Set("User-Agent", c.userAgent)
	res, err := c.transport.RoundTrip(r)
	if err != nil {
		return Answer{}, brief(c.explain(ctx, inner, progress, err))
	}
	defer res.Body.Close()
	bodyTimer := time.AfterFunc(c.body, func() { cancel(ErrTimeout) })
	defer bodyTimer.Stop()
	a := Answer{Status: res.StatusCode, Header: res.Header, Proto: res.Proto}
	a.Body, err = io.ReadAll(io.LimitReader(res.Body, int64(c.maxBody)+1))
	switch {
	case len(a.Body) > c.maxBody:
		a.Body, a.BodyErr = a.Body[:c.maxBody], ErrTooLong
	case err != nil:
		a.BodyErr = brief(c.explain(ctx, inner, progress, err))
	}
	return a, nil
}
