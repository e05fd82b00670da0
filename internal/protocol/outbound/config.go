package outbound

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// maxHeader bounds an answer's header, in bytes.
const maxHeader = 64 << 10

// Config says how to talk to strangers. The zero value is safe and complete but
// for UserAgent.
type Config struct {
	// UserAgent is sent with each request. Servers block the anonymous, so it
	// names the software and a page: fedpost/1.2 (+https://example.com/).
	UserAgent string

	// AllowPrivate permits plain http and private, loopback and shared (CGNAT)
	// addresses: for trials. Link-local ones, where clouds keep their
	// credentials, stay refused.
	AllowPrivate bool
	// AllowHTTP permits plain http.
	AllowHTTP bool
	// Allow lists networks that may be dialled whatever they are.
	Allow []netip.Prefix

	// Timeout bounds a request from its start to the end of the answer; default
	// 15 s. Body bounds the reading of the answer's body, as the status alone
	// decides most; default 3 s.
	Timeout time.Duration
	Body    time.Duration
	// MaxBody is how much of an answer's body is read, in bytes; default
	// MaxBody. Protocols whose answers carry content need more than the default.
	MaxBody int
	// Connect and TLS bound the first steps: look-up and connection, and
	// handshake; default 7 s each.
	Connect, TLS time.Duration

	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
	// RootCAs are the trusted certificate authorities; nil are the system's.
	RootCAs *x509.CertPool

	// Transport replaces all that concerns connections: a seam for servers in
	// memory, without address guard.
	Transport http.RoundTripper
	// Now is the wall clock; default time.Now.
	Now func() time.Time
}

func newTransport(c Config, timeout time.Duration, t *turns) *http.Transport {
	connect := min(cmp.Or(c.Connect, 7*time.Second), timeout)
	g := guard{allow: c.Allow, private: c.AllowPrivate}
	d := &tlsDialer{
		dialer: &net.Dialer{
			Timeout:        connect,
			Resolver:       c.Resolver,
			ControlContext: g.control,
		},
		timeout: min(cmp.Or(c.TLS, 7*time.Second), timeout),
		turns:   t,
		config: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            c.RootCAs,
			NextProtos:         []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(2048),
		},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  nil, // the environment does not decide where signed requests go
		DialContext:            d.dialPlain,
		DialTLSContext:         d.DialContext,
		Protocols:              protocols,
		DisableCompression:     true, // a small answer must not become a large one
		MaxResponseHeaderBytes: maxHeader,
		// A connection that died while the process was frozen is found out by a
		// ping instead of by the next delivery.
		// A host that reads nothing would hold up even the first write, which
		// net/http makes without an eye on the request's time.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second, WriteByteTimeout: min(5*time.Second, timeout)},
	}
}
