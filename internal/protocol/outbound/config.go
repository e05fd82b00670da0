package outbound

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

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
	return &tlsDialer{
		dialer: &route{
			direct: &net.Dialer{
				Timeout:        connect,
				Resolver:       c.Resolver,
				ControlContext: g.control,
			},
			guard: g, proxy: newTunnel(c.Proxy), onion: newTunnel(c.Onion),
		},
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
