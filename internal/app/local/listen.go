package local

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"
)

type ListenConfig struct {
	// Listen is host:port, or "unix:" and the path of a socket.
	Listen string
	// Cert and Key are files with a certificate chain and its private key, PEM, for TLS;
	// both empty: none. They are read again when they change.
	Cert, Key string
}

// Errors of a ListenConfig that cannot be used as it is.
var (
	// ErrNotLoopback: an API without authentication must not listen on a network.
	ErrNotLoopback = errors.New("listening on an address that is not loopback needs authentication")
	// ErrSocketTaken: a process listens on the socket, or the path is another file.
	ErrSocketTaken = errors.New("the socket's path is taken")
)

type AddressError struct{ error }

// Unwrap returns the error that says why.
func (e AddressError) Unwrap() error { return e.error }

const unixPrefix = "unix:"

// SocketPath returns the path of a Unix socket that an address names, if it names one.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixPrefix) }

// opened is an open listener with bounded connections.
type opened struct {
	net.Listener
	url string // what people and clients call it
}

func (p ListenConfig) open(log *slog.Logger) (o opened, err error) {
	path, socket := SocketPath(p.Listen)
	switch {
	case (p.Cert == "") != (p.Key == ""):
		return o, errors.New("TLS needs both files, the certificate's and the private key's")
	case p.Cert != "" && socket:
		return o, AddressError{fmt.Errorf("listen on %s: a Unix socket has no TLS; leave out the certificate, or listen on an address", p.Listen)}
	case socket:
		l, err := listenSocket(path)
		if err != nil {
			return o, err
		}
		return opened{withBounds(l), p.Listen}, nil
	}
	var pair *certificate
	if p.Cert != "" {
		if pair, err = newCertificate(p.Cert, p.Key, log); err != nil {
			return o, err
		}
	}
	l, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return o, cannotListen(p.Listen, err)
	}
	if pair == nil {
		return opened{withBounds(l), "http://" + l.Addr().String()}, nil
	}
	return opened{securing{withBounds(l), pair.serverTLS(), log}, "https://" + l.Addr().String()}, nil
}

// check refuses an address without a port.
func (p ListenConfig) check() error {
	if _, socket := SocketPath(p.Listen); socket {
		return nil
	}
	if _, _, err := net.SplitHostPort(p.Listen); err != nil {
		return AddressError{fmt.Errorf("listen on %q: give HOST:PORT, such as 127.0.0.1:8080, or unix:PATH: %w", p.Listen, err)}
	}
	return nil
}

// private reports whether only this machine can reach the listener.
func (p ListenConfig) private() bool {
	_, socket := SocketPath(p.Listen)
	return socket || loopbackName(p.Listen)
}

// socketMode lets the owner and the group connect: a reverse proxy joins the group.
const socketMode = 0o660

// listenSocket listens on a Unix socket. It replaces a socket that a killed process has left.
func listenSocket(path string) (net.Listener, error) {
	if err := dropStale(path); err != nil {
		return nil, err
	}
	l, err := bindSocket(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err), l.Close())
	}
	return l, nil
}

// dialTime is how long dropStale tries to connect to a socket.
const dialTime = 5 * time.Second

func dropStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: %s is there and is no socket; choose another path", ErrSocketTaken, path)
	}
	c, err := net.DialTimeout("unix", path, dialTime)
	if err == nil {
		return errors.Join(fmt.Errorf("%w: another process listens on %s", ErrSocketTaken, path), c.Close())
	}
	if !refused(err) {
		return fmt.Errorf("%w: %s is a socket, and it is not known whether a process listens on it: %w", ErrSocketTaken, path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket that an ended process has left: %w", err)
	}
	return nil
}

// serverTLS are the TLS settings of the API. HTTP/1.1 only: boundedListener expects one request at
// a time on a connection.
func (c *certificate) serverTLS() *tls.Config {
	return &tls.Config{GetCertificate: c.get, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
}
