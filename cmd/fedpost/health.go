package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"fedpost/client"
	"fedpost/internal/app/local"
)

// health requests GET /healthz, for images without a shell or curl. It finds the fedpost up of its
// container or service by their common settings.
type health struct {
	remote
	Listen  string `help:"Where fedpost up listens, if no --url is given." placeholder:"ADDRESS" env:"FEDPOST_LISTEN"`
	TLSCert string `name:"tls-cert" help:"The certificate of fedpost up, trusted for any name." placeholder:"FILE" env:"FEDPOST_TLS_CERT"`
}

// Run fails if nobody answers, or the answer is that fedpost cannot work.
func (h health) Run(ctx context.Context, out io.Writer) error {
	r, err := h.found()
	if err != nil {
		return err
	}
	return call(ctx, r, out, func(api *client.Client) (client.Health, error) { return api.Health(ctx) }, func(out io.Writer, a client.Health) error {
		_, err := fmt.Fprintln(out, a.Status)
		return err
	})
}

// found is the fedpost to ask.
func (h health) found() (remote, error) {
	r := h.remote
	if r.URL == defaultURL && h.Listen != "" {
		r.URL = urlOf(h.Listen, h.TLSCert != "")
	}
	if h.TLSCert == "" {
		return r, nil
	}
	leaf, err := leafOf(h.TLSCert)
	if err != nil {
		return r, err
	}
	r.Transport = trusting(leaf)
	return r, nil
}

// urlOf is how this machine reaches what listens on an address.
func urlOf(listen string, secure bool) string {
	if _, socket := local.SocketPath(listen); socket {
		return listen
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return scheme + listen // the request's error says what is wrong
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return scheme + net.JoinHostPort(host, port)
}

// leafOf is the first certificate of a PEM file.
func leafOf(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes, nil
		}
	}
	return nil, fmt.Errorf("TLS certificate: %s has none in PEM", file)
}

var errOtherCertificate = errors.New("the server shows another certificate than that of --tls-cert")

// trusting carries requests to a server with exactly this certificate, whatever the names in it.
func trusting(leaf []byte) http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyPeerCertificate compares the certificate itself
		VerifyPeerCertificate: func(shown [][]byte, _ [][]*x509.Certificate) error {
			if len(shown) == 0 || !bytes.Equal(shown[0], leaf) {
				return errOtherCertificate
			}
			return nil
		},
	}}
}
