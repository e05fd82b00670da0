package local

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a certificate in two files. When a client connects, it reads them again if one
// has changed, so a renewal needs no signal to fedpost.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu   sync.Mutex
	seen [2]os.FileInfo // at the last attempt to read, successful or not
	gone bool           // a file was missing when a client last connected
	pair *tls.Certificate
}

// newCertificate reads the files for the first time.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	seen, err := c.look()
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	if err := c.read(seen); err != nil {
		return nil, err
	}
	return c, nil
}

// get implements tls.Config.GetCertificate. If the files cannot be read, or do not match because
// only one was replaced yet, the last good pair stays in use until they change again.
func (c *certificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, err := c.look()
	if err != nil && c.gone || err == nil && !c.changed(seen) {
		return c.pair, nil
	}
	if c.gone = err != nil; err == nil {
		err = c.read(seen)
	}
	if err != nil {
		// Once for each change, not for each connection.
		c.log.ErrorContext(hello.Context(), "the changed TLS certificate cannot be used; the previous one stays in use", "error", err)
		return c.pair, nil
	}
	c.log.InfoContext(hello.Context(), "TLS certificate read again", "until", c.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return c.pair, nil
}

// look returns the state of the files. It follows links, as Certbot uses them.
func (c *certificate) look() (seen [2]os.FileInfo, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if seen[i], err = os.Stat(name); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

func (c *certificate) changed(now [2]os.FileInfo) bool {
	for i, f := range now {
		old := c.seen[i]
		if !os.SameFile(f, old) || !f.ModTime().Equal(old.ModTime()) || f.Size() != old.Size() {
			return true
		}
	}
	return false
}

func (c *certificate) read(seen [2]os.FileInfo) error {
	c.seen = seen
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}
