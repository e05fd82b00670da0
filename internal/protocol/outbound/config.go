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

// Config configures a Client. Only UserAgent is required; the zero values of all other
// fields are safe.
type Config struct {
	// UserAgent is sent with each request that has none of its own. It names the software and a page, such as
	// fedpost/1.2 (+https://example.com/), because servers block anonymous clients.
	UserAgent string

	// AllowPrivate permits plain http, and private, loopback and shared (CGNAT)
	// addresses, for local trials. Link-local addresses stay refused, because clouds
	// serve credentials there.
	AllowPrivate bool
	// AllowHTTP permits plain http.
	AllowHTTP bool
	// Allow lists networks that may be dialled although they are not public. Metadata
	// services of clouds stay refused.
	Allow []netip.Prefix

	// Proxy makes all connections but those to onion services; nil: they are made directly.
	// Onion makes those. http is for an HTTP proxy, socks5 for one of SOCKS5, and Onion has to
	// be one of SOCKS5. Both may have a user and a password.
	Proxy, Onion *url.URL

	// Timeout is the time for a request, from its start to the end of the answer;
	// default 15 s. Body is the time for reading the answer's body; default 3 s. Body is
	// short because the status alone decides most outcomes.
	Timeout time.Duration
	Body    time.Duration
	// MaxBody is how much of an answer's body is read, in bytes; default
	// MaxBody. Protocols whose answers carry content need more than the default.
	MaxBody int
	// Connect is the time for the DNS look-up and the connection, TLS the time for the
	// handshake; default 7 s each.
	Connect, TLS time.Duration

	// Idle is how many unused connections are kept in all, for half a minute each; default
	// 256. Each takes a file descriptor and, with TLS, the memory of its state.
	Idle int

	// Resolver looks names up; nil: the system's resolver.
	Resolver *net.Resolver
	// RootCAs are the trusted certificate authorities; nil: the system's.
	RootCAs *x509.CertPool

	// Proven reports whether a host, by its one name (activity.Authority), has accepted a
	// delivery lately. Handshakes with all others share half of the processor time; nil: none
	// has.
	Proven func(host string) bool

	// Transport replaces the connections and the address guard. Tests set it to talk to
	// servers in memory.
	Transport http.RoundTripper
	// Now is the wall clock; default time.Now.
	Now func() time.Time
}

func (c Config) proven() func(string) bool {
	if c.Proven == nil {
		return func(string) bool { return false }
	}
	return c.Proven
}

func newDialer(c Config, timeout time.Duration, t *turns, s sessions) *tlsDialer {
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
		timeout: min(cmp.Or(c.TLS, 7*time.Second), timeout),
		turns:   t,
		proven:  c.proven(),
		config: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            c.RootCAs,
			NextProtos:         []string{"h2", "http/1.1"},
			ClientSessionCache: s,
		},
	}
}

// newTransport returns what speaks HTTP/2.
func newTransport(timeout time.Duration, maxBody int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialTLSContext:         handOver,
		Protocols:              protocols,
		DisableCompression:     true, // a small answer must not become a large one
		MaxResponseHeaderBytes: maxHeader,
		// The ping finds a connection that died while the process was frozen, before
		// a delivery uses that connection. The time for writes is for hosts that read
		// nothing: net/http does not apply the request's time to its first write.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second, WriteByteTimeout: min(5*time.Second, timeout),
			MaxReceiveBufferPerStream: maxBody,
		},
	}
}
