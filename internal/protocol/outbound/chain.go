package outbound

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A host chooses the certificates that it shows, and crypto/x509 checks up to 100 signatures to
// find a path to a root: with P-521 keys 340 ms of processor time. crypto/tls has no hook before
// that search. So InsecureSkipVerify is set, and certificates.verify bounds the search and then
// verifies as crypto/tls would.
const (
	// maxChain: chains of public authorities have two to four certificates.
	maxChain = 10
	// maxChecking bounds the processor time of all checks of a handshake: some three P-521 keys.
	maxChecking = 13 * time.Millisecond
	// rootCheck is for one check by a root's key: RSA of 4,096 bits or P-384 at most.
	rootCheck = 600 * time.Microsecond
)

// certificates checks the certificates of one connection.
type certificates struct {
	config *tls.Config
	valid  validity // of those that this connection relies on
}

func (c *certificates) verify(s tls.ConnectionState) error {
	if s.DidResume {
		if c.valid.until.IsZero() {
			return errors.New("the resumed session's certificates were not checked")
		}
		return nil // resumable has checked their time, and this host's first connection the rest
	}
	shown := s.PeerCertificates
	if len(shown) > maxChain {
		return fmt.Errorf("the host shows %d certificates, and at most %d are checked", len(shown), maxChain)
	}
	left := maxChecking - keyCheck(shown[0].PublicKey) // signs the handshake
	if search(shown[:1], shown[1:], left) < 0 {
		return fmt.Errorf("the host's certificates take too long to check: over %v, for their keys or because too many may have signed each other", maxChecking)
	}
	// From here on as crypto/tls does it.
	options := x509.VerifyOptions{
		Roots: c.config.RootCAs, CurrentTime: c.now(), DNSName: c.config.ServerName, Intermediates: x509.NewCertPool(),
	}
	for _, cert := range shown[1:] {
		options.Intermediates.AddCert(cert)
	}
	chains, err := shown[0].Verify(options)
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: shown, Err: err}
	}
	for _, chain := range chains {
		if v := validityOf(chain); v.until.After(c.valid.until) {
			c.valid = v
		}
	}
	return nil
}

func (c *certificates) now() time.Time {
	if c.config.Time != nil {
		return c.config.Time()
	}
	return time.Now()
}

// search subtracts from left the longest time in which crypto/x509 may search for paths from the
// last certificate of path to a root, and stops below zero. Like crypto/x509 it goes by names, but
// it takes every signature for valid.
func search(path, others []*x509.Certificate, left time.Duration) time.Duration {
	last := path[len(path)-1]
	hash := time.Duration(len(last.Raw)) * 2 * time.Nanosecond
	left -= rootCheck + hash
	for _, parent := range others {
		if left < 0 {
			break
		}
		if bytes.Equal(parent.RawSubject, last.RawIssuer) && !slices.Contains(path, parent) {
			left = search(append(path, parent), others, left-keyCheck(parent.PublicKey)-hash)
		}
	}
	return left
}

// keyCheck estimates the processor time for checking one signature, on a core of 2.5 GHz.
func keyCheck(key any) time.Duration {
	switch k := key.(type) {
	case *rsa.PublicKey:
		kilobits := time.Duration(k.N.BitLen()+1023) / 1024
		check := kilobits * kilobits * 22 * time.Microsecond
		if k.E > 1<<16+1 {
			check *= 3 // up to 2³¹-1, with as many bits set
		}
		return check
	case *ecdsa.PublicKey:
		switch bits := k.Params().BitSize; {
		case bits > 384:
			return 3500 * time.Microsecond
		case bits > 256:
			return 600 * time.Microsecond
		case bits < 256:
			return 170 * time.Microsecond // P-224 has no assembly
		}
		return 80 * time.Microsecond
	}
	return 50 * time.Microsecond // Ed25519; others are not checked
}

// validity is the time in which all certificates of a chain are valid.
type validity struct{ from, until time.Time }

func validityOf(chain []*x509.Certificate) validity {
	v := validity{chain[0].NotBefore, chain[0].NotAfter}
	for _, cert := range chain[1:] {
		if cert.NotBefore.After(v.from) {
			v.from = cert.NotBefore
		}
		if cert.NotAfter.Before(v.until) {
			v.until = cert.NotAfter
		}
	}
	return v
}

// validityMark begins the entry of a session's Extra (tls.SessionState) that holds a validity, in
// seconds since 1970.
const validityMark = "fedpost/validity/1:"

// save stores with a session how long its certificates are valid: crypto/tls does not know, as it
// has not verified them.
func (c *certificates) save(cs *tls.ClientSessionState) {
	if _, state, err := cs.ResumptionState(); err == nil && state != nil {
		entry := []byte(validityMark)
		entry = binary.BigEndian.AppendUint64(entry, uint64(c.valid.from.Unix()))
		entry = binary.BigEndian.AppendUint64(entry, uint64(c.valid.until.Unix()))
		state.Extra = append(state.Extra, entry)
	}
}

// resumable reports whether a session's certificates are still valid. Their signers and name cannot
// have changed: a Client has one set of roots, and keeps its sessions by name.
func (c *certificates) resumable(cs *tls.ClientSessionState) bool {
	_, state, err := cs.ResumptionState()
	if err != nil || state == nil {
		return false
	}
	for _, entry := range state.Extra {
		times, ok := bytes.CutPrefix(entry, []byte(validityMark))
		if !ok || len(times) != 16 {
			continue
		}
		v := validity{time.Unix(int64(binary.BigEndian.Uint64(times)), 0), time.Unix(int64(binary.BigEndian.Uint64(times[8:])), 0)}
		if now := c.now(); !now.Before(v.from) && !now.After(v.until) {
			c.valid = v
			return true
		}
	}
	return false
}
