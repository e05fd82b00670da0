package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Sinks are servers that receive activities. Each has an address of its own.
type Sinks struct {
	// CA is the certificate, PEM, that fedpost has to trust; nil without TLS.
	CA []byte

	// IDsOnly: activities are recognised by their id, and their bytes are not compared, for a
	// sender that adds a signature to the body. Set it before the first delivery.
	IDsOnly bool

	plan    Plan
	origins []string // of the servers, scheme and authority
	servers []*http.Server
	serving sync.WaitGroup
	book    atomic.Pointer[book] // of the run under way
	stopped chan struct{}

	connections, handshakes, resumed, overHTTP2 atomic.Int64
}

// NewSinks starts the servers of a plan on loopback addresses.
func NewSinks(p Plan) (*Sinks, error) {
	s := &Sinks{plan: p, stopped: make(chan struct{})}
	var a *authority
	if p.TLS {
		var err error
		if a, err = newAuthority(); err != nil {
			return nil, err
		}
		s.CA = a.PEM
	}
	for host := range p.Hosts {
		l, err := listen(host)
		if err == nil {
			err = s.start(host, l, a)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("server %d of the measurement: %w", host, err), s.Close())
		}
	}
	return s, nil
}

// NewSinkAt starts the one server of a plan at an address, without TLS. fedpost reaches it at the URL
// origin, through a proxy or tunnel of the caller's.
func NewSinkAt(p Plan, address, origin string) (*Sinks, error) {
	if p.Hosts != 1 || p.TLS {
		return nil, fmt.Errorf("%w: a server of your own is one host without TLS here; %s may add TLS", ErrPlan, origin)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("server of the measurement: %w", err)
	}
	s := &Sinks{plan: p, stopped: make(chan struct{})}
	if err := s.start(0, l, nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.origins[0] = strings.TrimSuffix(origin, "/")
	return s, nil
}

// listen opens an address that no other server of the measurement has. Linux answers on
// all of 127.0.0.0/8; elsewhere the servers differ by their ports.
func listen(host int) (net.Listener, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.80.%d.%d:0", host/250, host%250+1))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return l, err
}

func (s *Sinks) start(host int, l net.Listener, a *authority) error {
	scheme := "http"
	hs := &http.Server{
		Handler: s.handler(host), ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.connections.Add(1)
			}
		},
	}
	if a != nil {
		scheme = "https"
		var err error
		if hs.TLSConfig, err = a.config(l.Addr()); err != nil {
			return errors.Join(err, l.Close())
		}
		hs.TLSConfig.VerifyConnection = s.count
		hs.Protocols = new(http.Protocols)
		hs.Protocols.SetHTTP1(true)
		hs.Protocols.SetHTTP2(s.plan.HTTP2)
	}
	hs.SetKeepAlivesEnabled(!s.plan.HangUp)
	s.origins, s.servers = append(s.origins, scheme+"://"+l.Addr().String()), append(s.servers, hs)
	s.serving.Go(func() {
		// Both calls end when Close closes the listener, and return that as an error.
		if a != nil {
			_ = hs.ServeTLS(l, "", "")
			return
		}
		_ = hs.Serve(l)
	})
	return nil
}

func (s *Sinks) count(c tls.ConnectionState) error {
	if c.DidResume {
		s.resumed.Add(1)
	} else {
		s.handshakes.Add(1)
	}
	return nil
}

// Inbox is the address of an activity's recipient of a number.
func (s *Sinks) Inbox(activity, recipient int) string {
	return fmt.Sprintf("%s/%d", s.origins[s.plan.host(activity, recipient)], recipient)
}

func (s *Sinks) handler(host int) http.Handler {
	sick := s.plan.sick(host)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sick {
			select {
			case <-s.stopped:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		}
		if r.Method != http.MethodPost {
			http.NotFound(w, r) // a check of the server: it is there
			return
		}
		came := time.Now()
		body := make([]byte, max(0, min(r.ContentLength, maxBody+minBody)))
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return // the sender has gone
		}
		if d := s.plan.Answer.draw(); d > 0 {
			time.Sleep(d)
		}
		s.receive(w, r, host, body, came)
	})
}

func (s *Sinks) receive(w http.ResponseWriter, r *http.Request, host int, body []byte, came time.Time) {
	b := s.book.Load()
	if b == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.Header.Get("Signature") == "" {
		b.fault("a request to server %d has no signature", host)
	}
	activity, err := s.number(body)
	recipient, pathErr := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if err := errors.Join(err, pathErr); err != nil {
		b.fault("server %d: %v", host, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.ProtoMajor == 2 {
		s.overHTTP2.Add(1)
	}
	b.take(activity, recipient, host, came)
	w.WriteHeader(http.StatusAccepted)
}

// number is the number of the activity that was received.
func (s *Sinks) number(body []byte) (int, error) {
	if s.IDsOnly {
		return numberByID(body)
	}
	return numberOf(body, s.plan.Body)
}

// Close ends the servers.
func (s *Sinks) Close() error {
	close(s.stopped)
	var errs []error
	for _, hs := range s.servers {
		errs = append(errs, hs.Close())
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

// authority issues the certificates of the servers.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	PEM  []byte
}

func newAuthority() (*authority, error) {
	a := &authority{cert: template("fedpost bench")}
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("key of the servers' authority: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the servers' authority: %w", err)
	}
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// config is the TLS of a server at an address, with a key and a certificate of its own.
func (a *authority) config(address net.Addr) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(host)
	t.IPAddresses = []net.IP{net.ParseIP(host)}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}, nil
}
