package outbound

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

// issuer issues certificates.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newKey makes a key of a curve.
func newKey(t testing.TB, c elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// authority makes an authority of this name and key, below i; the zero issuer: a root.
func (i issuer) authority(t testing.TB, name string, key crypto.Signer, change func(*x509.Certificate)) issuer {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	return issuer{i.sign(t, template, key), key}
}

// leaf makes a certificate for a.hosts.test and 127.0.0.1.
func (i issuer) leaf(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		DNSNames: []string{"a.hosts.test"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	return i.sign(t, template, key)
}

var serial atomic.Int64

func (i issuer) sign(t testing.TB, template *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(serial.Add(1))
	if i.cert == nil {
		i = issuer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shown is what a host shows: a key's certificate and those that follow it.
func shown(key crypto.Signer, certs ...*x509.Certificate) tls.Certificate {
	c := tls.Certificate{PrivateKey: key, Leaf: certs[0]}
	for _, cert := range certs {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c
}

// tangle is a chain with n authorities of one name, each of which may have issued any other:
// to find no way to a root, all pairs have to be checked.
func tangle(t testing.TB, n int, curve elliptic.Curve) tls.Certificate {
	t.Helper()
	var all []*x509.Certificate
	var last issuer
	for range n {
		last = issuer{}.authority(t, "tangle", newKey(t, curve), nil)
		all = append(all, last.cert)
	}
	key := newKey(t, elliptic.P256())
	return shown(key, append([]*x509.Certificate{last.leaf(t, key, nil)}, all...)...)
}

// below is a chain below a root, with n authorities between.
func below(t testing.TB, root issuer, n int, curve elliptic.Curve) tls.Certificate {
	t.Helper()
	var all []*x509.Certificate
	last := root
	for i := range n {
		last = last.authority(t, "authority "+string(rune('a'+i)), newKey(t, curve), nil)
		all = append([]*x509.Certificate{last.cert}, all...)
	}
	key := newKey(t, elliptic.P256())
	return shown(key, append([]*x509.Certificate{last.leaf(t, key, nil)}, all...)...)
}

// serving starts a server that shows a certificate, and returns its URL.
func serving(t *testing.T, c tls.Certificate) string {
	t.Helper()
	s, _ := secure(t, accept, func(s *httptest.Server) { s.TLS.Certificates = []tls.Certificate{c} })
	return s.URL
}

// TestLongAndCostlyChainsEndBeforeTheyAreChecked: a check of their signatures would first find that
// no known authority signed them.
func TestLongAndCostlyChainsEndBeforeTheyAreChecked(t *testing.T) {
	unknown := issuer{}.authority(t, "unknown", newKey(t, elliptic.P256()), nil)
	for _, c := range []struct {
		name string
		cert tls.Certificate
		want string
	}{
		{"eleven certificates", below(t, unknown, 10, elliptic.P256()), "the host shows 11 certificates, and at most 10 are checked"},
		{"ten certificates", below(t, unknown, 9, elliptic.P256()), "signed by unknown authority"},
		{"ten certificates in a tangle", tangle(t, 9, elliptic.P521()), "the host's certificates take too long to check"},
		{"three authorities of P-521", below(t, unknown, 3, elliptic.P521()), "signed by unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := post(t, trial(t, func(cfg *Config) { cfg.RootCAs = x509.NewCertPool() }), serving(t, c.cert))
			if got := ReasonOf(err); got != outcome.TLS || !strings.Contains(err.Error(), c.want) {
				t.Errorf("reason %q, want %q; error %v, want one with %q", got, outcome.TLS, err, c.want)
			}
		})
	}
}

// TestCertificatesAreCheckedAsGoChecksThem: what crypto/tls alone accepts is accepted, and what
// it refuses is refused with the same words, by name and by address.
func TestCertificatesAreCheckedAsGoChecksThem(t *testing.T) {
	root := issuer{}.authority(t, "root", newKey(t, elliptic.P256()), nil)
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	key := newKey(t, elliptic.P256())
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }
	sub := root.authority(t, "sub", newKey(t, elliptic.P256()), nil)
	under := func(change func(*x509.Certificate)) tls.Certificate {
		i := root.authority(t, "changed", newKey(t, elliptic.P256()), change)
		return shown(key, i.leaf(t, key, nil), i.cert)
	}
	for name, c := range map[string]tls.Certificate{
		"good":                         shown(key, root.leaf(t, key, nil)),
		"good, with an authority":      shown(key, sub.leaf(t, key, nil), sub.cert),
		"good, with its root":          shown(key, sub.leaf(t, key, nil), sub.cert, root.cert),
		"good, in disorder":            shown(key, sub.leaf(t, key, nil), root.cert, sub.cert),
		"good, nine authorities":       below(t, root, 9, elliptic.P256()),
		"good, P-521":                  below(t, root, 3, elliptic.P521()),
		"an authority is missing":      shown(key, sub.leaf(t, key, nil)),
		"self-signed":                  shown(key, issuer{}.leaf(t, key, nil)),
		"expired":                      shown(key, root.leaf(t, key, expired)),
		"not valid yet":                shown(key, root.leaf(t, key, early)),
		"an authority that expired":    under(expired),
		"an authority not valid yet":   under(early),
		"an authority that is none":    under(func(c *x509.Certificate) { c.IsCA = false; c.KeyUsage = x509.KeyUsageDigitalSignature }),
		"an authority for other names": under(func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"other.test"} }),
		"an authority for clients": under(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}),
		"for clients": shown(key, root.leaf(t, key, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})),
		"for another name":               shown(key, root.leaf(t, key, func(c *x509.Certificate) { c.DNSNames = []string{"b.hosts.test"}; c.IPAddresses = nil })),
		"for any name below":             shown(key, root.leaf(t, key, func(c *x509.Certificate) { c.DNSNames = []string{"*.hosts.test"} })),
		"for names, no":                  shown(key, root.leaf(t, key, func(c *x509.Certificate) { c.IPAddresses = nil })),
		"for an address only":            shown(key, root.leaf(t, key, func(c *x509.Certificate) { c.DNSNames = nil })),
		"signed by another of that name": shown(key, issuer{}.authority(t, "root", newKey(t, elliptic.P256()), nil).leaf(t, key, nil)),
		"critical extension": shown(key, root.leaf(t, key, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		})),
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(name+", "+tls.VersionName(version), func(t *testing.T) {
				s, _ := secure(t, accept, func(s *httptest.Server) {
					s.TLS.Certificates, s.TLS.MaxVersion = []tls.Certificate{c}, version
				})
				port := portOf(t, s.URL)
				client := trial(t, func(cfg *Config) {
					cfg.RootCAs, cfg.Resolver = roots, resolver(t, zone{"a.hosts.test": {"127.0.0.1"}})
				})
				for _, host := range []string{"a.hosts.test", "127.0.0.1"} {
					_, err := post(t, client, "https://"+host+":"+port)
					want := ""
					conn, wantErr := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: host, RootCAs: roots})
					if wantErr == nil {
						conn.Close()
					} else {
						want = outcome.Text("TLS: " + wantErr.Error())
					}
					got, reason := "", outcome.ReasonNone
					if err != nil {
						got = err.Error()
					}
					if wantErr != nil {
						reason = outcome.TLS
					}
					// x509 quotes the time to the second.
					if cut(got) != cut(want) || ReasonOf(err) != reason || strings.HasPrefix(name, "good") != (err == nil) && !strings.HasPrefix(name, "for ") {
						t.Errorf("%s: error %q (reason %q), want %q (reason %q)", host, got, ReasonOf(err), want, reason)
					}
				}
			})
		}
	}
}

// cut cuts a text before the current time in it.
func cut(s string) string {
	before, _, _ := strings.Cut(s, "current time")
	return before
}

// TestASessionIsResumedWhileItsCertificatesAreValid, and for no other name. Then the host is
// asked for its certificates again, as crypto/tls does it.
func TestASessionIsResumedWhileItsCertificatesAreValid(t *testing.T) {
	start := time.Now()
	root := issuer{}.authority(t, "root", newKey(t, elliptic.P256()), nil)
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	brief := root.authority(t, "brief", newKey(t, elliptic.P256()), func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = start.Add(-time.Minute), start.Add(time.Minute)
	})
	key := newKey(t, elliptic.P256())
	c := shown(key, brief.leaf(t, key, nil), brief.cert)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			var resumed atomic.Int32
			s, _ := secure(t, func(w http.ResponseWriter, r *http.Request) {
				if r.TLS.DidResume {
					resumed.Add(1)
				}
			}, func(s *httptest.Server) {
				s.TLS.Certificates, s.TLS.MaxVersion = []tls.Certificate{c}, version
				s.EnableHTTP2 = false
			})
			now := start
			cache := sessions{tls.NewLRUClientSessionCache(mostSessions)}
			d := newDialer(Config{RootCAs: roots, AllowPrivate: true}, time.Hour, newSemaphore(1), cache)
			d.config.Time = func() time.Time { return now }
			visit := func(host string) error {
				raw, err := net.Dial("tcp", s.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				conn, err := d.handshake(t.Context(), raw, host+":443")
				if err != nil {
					return err
				}
				r, err := http.NewRequest("GET", "https://"+host, nil)
				if err != nil {
					t.Fatal(err)
				}
				k := &http1{conn: conn, raw: raw}
				res, err := k.RoundTrip(r)
				if err != nil {
					return err
				}
				return res.Body.Close()
			}
			for _, step := range []struct {
				name, host string
				at         time.Duration
				resumed    int32
				want       string
			}{
				{"first", "a.hosts.test", 0, 0, ""},
				{"again", "a.hosts.test", 30 * time.Second, 1, ""},
				{"resumed twice", "a.hosts.test", 40 * time.Second, 2, ""},
				{"another name", "b.hosts.test", 40 * time.Second, 2, "not b.hosts.test"},
				{"before the authority is valid", "a.hosts.test", -2 * time.Minute, 2, "is before"},
				{"once more", "a.hosts.test", 0, 2, ""},
				{"and again", "a.hosts.test", 0, 3, ""},
				{"when the authority has expired", "a.hosts.test", 2 * time.Minute, 3, "is after"},
			} {
				now = start.Add(step.at)
				err := visit(step.host)
				switch {
				case (err == nil) != (step.want == ""), err != nil && !strings.Contains(err.Error(), step.want):
					t.Errorf("%s: error %v, want %q", step.name, err, step.want)
				case resumed.Load() != step.resumed:
					t.Errorf("%s: %d sessions resumed so far, want %d", step.name, resumed.Load(), step.resumed)
				}
			}
		})
	}
}

// TestNoKeyIsCheckedForLong: a check takes longer with a larger key, and the host chooses the key.
func TestNoKeyIsCheckedForLong(t *testing.T) {
	modulus := func(bits uint) *big.Int { return new(big.Int).SetBit(new(big.Int), int(bits)-1, 1) }
	ed, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Duration(0)
	for _, c := range []struct {
		name string
		key  any
	}{
		{"Ed25519", ed},
		{"P-256", newKey(t, elliptic.P256()).Public()},
		{"RSA 2048", &rsa.PublicKey{N: modulus(2048), E: 65537}},
		{"P-224", newKey(t, elliptic.P224()).Public()},
		{"RSA 4096", &rsa.PublicKey{N: modulus(4096), E: 65537}},
		{"P-384", newKey(t, elliptic.P384()).Public()},
		{"RSA 4096 with a long exponent", &rsa.PublicKey{N: modulus(4096), E: 1<<31 - 1}},
		{"RSA 8192", &rsa.PublicKey{N: modulus(8192), E: 65537}},
		{"P-521", newKey(t, elliptic.P521()).Public()},
		{"RSA 8192 with a long exponent", &rsa.PublicKey{N: modulus(8192), E: 1<<31 - 1}},
	} {
		if got := keyCheck(c.key); got <= before {
			t.Errorf("%s: %v, want more than the %v of the one before", c.name, got, before)
		} else {
			before = got
		}
	}
}
