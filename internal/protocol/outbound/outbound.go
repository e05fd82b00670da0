// Package outbound is the HTTP client for requests to strangers' servers. It trusts neither the
// address, which a stranger chose, nor the answer.
//
// Addresses are checked when they are dialled, after names are resolved. Every wait has an end and
// every read a limit. Redirects are not followed: a signature covers one address, so the caller has
// to sign again. There are no cookies, no decompression, and no proxies but those of Config.
// Connections and TLS sessions are kept in bounded numbers, connections for a short time.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"time"

	"golang.org/x/net/http/httpguts"

	"fedpost/internal/activity/outcome"
)

// MaxBody is the default of Config.MaxBody, in bytes.
const MaxBody = 64 << 10

// Client sends requests to strangers' servers. It is safe for concurrent use; use one for a process.
type Client struct {
	transport http.RoundTripper
	config    Config
	semaphore *semaphore
}

// New returns a client, or an error that says what is wrong with the configuration.
func New(c Config) (*Client, error) {
	if c.UserAgent == "" || !httpguts.ValidHeaderFieldValue(c.UserAgent) {
		return nil, fmt.Errorf("user agent %q cannot be sent; use the form fedpost/1.2 (+https://example.com/)", c.UserAgent)
	}
	quieten()
	c.Timeout = cmp.Or(c.Timeout, 15*time.Second)
	c.Body = cmp.Or(c.Body, 3*time.Second)
	c.MaxBody = cmp.Or(c.MaxBody, MaxBody)
	if c.Now == nil {
		c.Now = time.Now
	}
	client := &Client{transport: c.Transport, config: c, semaphore: newSemaphore(permitsEach * runtime.GOMAXPROCS(0))}
	if client.transport == nil {
		s := sessions{tls.NewLRUClientSessionCache(mostSessions)}
		p := newPool(newDialer(c, c.Timeout, client.semaphore, s), newTransport(c.Timeout, c.MaxBody), s, c.Now, c.Idle)
		p.answer = perAnswer(c.MaxBody)
		client.transport = p
	}
	return client, nil
}

// maxHeader bounds an answer's header, in bytes.
const maxHeader = 64 << 10

// Config configures a Client. Only UserAgent is required; all other zero values are safe.
type Config struct {
	// UserAgent is sent with requests that have none. It names the software and a page, such as
	// fedpost/1.2 (+https://example.com/): servers block anonymous clients.
	UserAgent string

	// AllowPrivate permits plain http, and private, loopback and shared (CGNAT) addresses, for
	// local trials. Link-local addresses stay refused: clouds serve credentials there.
	AllowPrivate bool
	// AllowHTTP permits plain http.
	AllowHTTP bool
	// Allow lists networks that may be dialled although they are not public. Metadata services
	// of clouds stay refused.
	Allow []netip.Prefix

	// Proxy makes all connections but those to onion services, which Onion makes; nil: no proxy.
	// Schemes: socks5, and for Proxy also http. Both may have a user and a password.
	Proxy, Onion *url.URL

	// Timeout is for a whole request; default 15 s. Body is for reading the answer's body;
	// default 3 s, because the status alone decides most outcomes.
	Timeout time.Duration
	Body    time.Duration
	// MaxBody is how much of an answer's body is read, in bytes; default MaxBody.
	MaxBody int
	// Connect is for the DNS look-up and the connection, TLS for the handshake; default 7 s.
	Connect, TLS time.Duration

	// Idle is how many unused connections are kept in all; default 256.
	Idle int

	// Resolver looks names up; nil: the system's resolver.
	Resolver *net.Resolver
	// RootCAs are the trusted certificate authorities; nil: the system's.
	RootCAs *x509.CertPool

	// Proven reports whether a host (activity.Authority) has accepted a delivery lately; nil:
	// none has. Handshakes with all other hosts share half of the processor time.
	Proven func(host string) bool

	// Transport replaces the connections and the address guard, in tests.
	Transport http.RoundTripper
	// Now is the wall clock; default time.Now.
	Now func() time.Time
}

func (c Config) proven(host string) bool { return c.Proven != nil && c.Proven(host) }

func newDialer(c Config, timeout time.Duration, semaphore *semaphore, s sessions) *tlsDialer {
	connect := min(cmp.Or(c.Connect, 7*time.Second), timeout)
	g := guard{allow: c.Allow, private: c.AllowPrivate}
	known := newSeconds(c.Now)
	return &tlsDialer{
		dialer: &route{
			direct: &net.Dialer{
				Timeout:        connect,
				Resolver:       c.Resolver,
				ControlContext: g.control,
			},
			guard: g, proxy: newTunnel(c.Proxy), onion: newTunnel(c.Onion), seconds: known,
		},
		seconds:   known,
		timeout:   min(cmp.Or(c.TLS, 7*time.Second), timeout),
		semaphore: semaphore,
		proven:    c.proven,
		config: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            c.RootCAs,
			NextProtos:         []string{"h2", "http/1.1"},
			ClientSessionCache: s,
		},
	}
}

func newTransport(timeout time.Duration, maxBody int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialTLSContext:         handOver,
		Protocols:              protocols,
		DisableCompression:     true, // a small answer must not become a large one
		MaxResponseHeaderBytes: maxHeader,
		// The ping finds a connection that died while the process was frozen. WriteByteTimeout is
		// for hosts that read nothing: net/http does not apply the request's timeout to its first
		// write.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second, WriteByteTimeout: min(5*time.Second, timeout),
			MaxReceiveBufferPerStream: maxBody,
		},
	}
}

// Timeout is the longest that Do takes.
func (c *Client) Timeout() time.Duration { return c.config.Timeout }

// ErrTimeout says that a request ran out of time, which counts against the host. A caller with one
// time limit for several requests cancels its context with ErrTimeout as the cause.
var ErrTimeout = outcome.ErrTimeout

// ErrStopped says that no answer came, and that the host is not at fault.
var ErrStopped = errors.New("stopped before an answer came")

// ErrNoRoom says that this machine has no file descriptor, port or memory for another connection. It
// wraps ErrStopped.
var ErrNoRoom = fmt.Errorf("%w: this machine has no room for another connection", ErrStopped)

// Answer is what a host answered.
type Answer struct {
	Status int
	Header http.Header
	// Body is the beginning of the body, at most Config.MaxBody bytes.
	Body []byte
	// BodyErr says why Body is incomplete: ErrTooLong, or the error of reading it.
	BodyErr error
	// Proto is the protocol's version, such as HTTP/2.0.
	Proto string
}

// OK reports whether the status is 2xx.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// ErrTooLong says that a body is longer than Config.MaxBody.
var ErrTooLong = errors.New("the body is longer than the limit")

// Do sends r, made by NewRequest, and reads the answer. An error means that no answer came;
// ReasonOf classifies it. Any status is an answer, redirects included, even if the body cannot be
// read (Answer.BodyErr). A request is sent a second time only if the host cannot have read the
// first: see pool.RoundTrip.
func (c *Client) Do(ctx context.Context, r *http.Request) (Answer, error) {
	if err := c.check(r); err != nil {
		return Answer{}, brief(err)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.config.Timeout, func() { cancel(ErrTimeout) })
	defer timer.Stop()

	progress := &trace{}
	r = r.WithContext(progress.attach(inner))
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", c.config.UserAgent)
	}
	res, err := c.transport.RoundTrip(r)
	if err != nil {
		return Answer{}, brief(c.explain(ctx, inner, progress, err))
	}
	defer res.Body.Close()
	bodyTimer := time.AfterFunc(c.config.Body, func() { cancel(ErrTimeout) })
	defer bodyTimer.Stop()
	a := Answer{Status: res.StatusCode, Header: res.Header, Proto: res.Proto}
	a.Body, err = io.ReadAll(io.LimitReader(res.Body, int64(c.config.MaxBody)+1))
	switch {
	case len(a.Body) > c.config.MaxBody:
		a.Body, a.BodyErr = a.Body[:c.config.MaxBody], ErrTooLong
	case err != nil:
		a.BodyErr = brief(c.explain(ctx, inner, progress, err))
	}
	return a, nil
}
