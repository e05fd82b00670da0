package outbound

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/net/http2"

	"fedpost/internal/activity/outcome"
)

// garbage is a TLS record that cannot be decrypted: crypto/tls answers it with an alert.
func garbage(*tls.Conn, string) []byte { return append([]byte{23, 3, 3, 0, 32}, make([]byte, 32)...) }

// keyUpdate is a TLS record that crypto/tls answers with another: a KeyUpdate that requests one
// (RFC 8446, section 4.6.3). crypto/tls has no call to send it. keys is the log of the host's
// keys (SSLKEYLOGFILE), with which it has sent one record.
func keyUpdate(host *tls.Conn, keys string) []byte {
	_, rest, _ := strings.Cut(keys, "SERVER_TRAFFIC_SECRET_0 ")
	secret, _ := hex.DecodeString(strings.Fields(rest)[1])
	derive := func(label string, n int) []byte { // RFC 8446, section 7.1
		b, err := hkdf.Expand(sha256.New, secret, string([]byte{0, byte(n), byte(len("tls13 " + label))})+"tls13 "+label+"\x00", n)
		if err != nil {
			panic(err)
		}
		return b
	}
	var aead cipher.AEAD
	var err error
	if host.ConnectionState().CipherSuite == tls.TLS_CHACHA20_POLY1305_SHA256 {
		aead, err = chacha20poly1305.New(derive("key", 32))
	} else {
		var block cipher.Block
		if block, err = aes.NewCipher(derive("key", 16)); err == nil {
			aead, err = cipher.NewGCM(block)
		}
	}
	if err != nil {
		panic(err)
	}
	nonce := derive("iv", 12)
	nonce[11] ^= 1
	const handshake, update, requested = 22, 24, 1
	record := []byte{23, 3, 3, 0, byte(6 + aead.Overhead())}
	return aead.Seal(record, nonce, []byte{update, 0, 0, 1, requested, handshake}, record)
}

// unread lets client talk to a host over TLS that reads one request of each connection and
// nothing after it, not even an alert of TLS. A pipe has no buffer, like a socket whose
// buffer is full: what is written waits until it is read. answer answers the request on
// connection n, from 1. What it writes arrives in one piece.
func unread(t *testing.T, client *Client, answer func(n int32, host *tls.Conn, raw net.Conn, keys string)) {
	t.Helper()
	cert, authorities := certificate(t)
	var connections atomic.Int32
	client.transport.(*pool).secure = func(ctx context.Context, _ string) (dialled, error) {
		ours, theirs := net.Pipe()
		go func() {
			together := &gathering{Conn: theirs}
			var keys strings.Builder
			host := tls.Server(together, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true, KeyLogWriter: &keys})
			if _, err := host.Read(make([]byte, 4<<10)); err != nil {
				return
			}
			together.hold = true
			answer(connections.Add(1), host, together, keys.String())
			together.flush()
		}()
		conn := tls.Client(ours, &tls.Config{RootCAs: authorities, ServerName: "a.hosts.test"})
		if err := conn.HandshakeContext(ctx); err != nil {
			return dialled{}, err
		}
		return dialled{Conn: conn, raw: ours}, nil
	}
}

// after is what a host sends that reads nothing.
var after = map[string]func(*tls.Conn, string) []byte{
	"nothing":   func(*tls.Conn, string) []byte { return nil },
	"garbage":   garbage,
	"keyUpdate": keyUpdate,
}

// TestARequestEndsInTimeAtAHostThatReadsNothing: crypto/tls waits five seconds until the host
// has taken its close-notify, and without end until the host has taken an alert or a KeyUpdate,
// and meanwhile does not close the connection.
func TestARequestEndsInTimeAtAHostThatReadsNothing(t *testing.T) {
	for name, after := range after {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := trial(t, func(c *Config) { c.Timeout = time.Second })
				unread(t, client, func(_ int32, host *tls.Conn, raw net.Conn, keys string) {
					_, _ = host.Write([]byte("HTTP/1.1 "))
					_, _ = raw.Write(after(host, keys))
				})
				start := time.Now()
				_, err := post(t, client, "https://a.hosts.test/inbox")
				if took := time.Since(start); ReasonOf(err) != outcome.Timeout || took != time.Second {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

// TestAnUnusedConnectionIsLeftAtOnce: whether a connection still serves is asked before the
// next request to its host, and a connection is closed to make room for one to any other, so
// neither may wait for a host.
func TestAnUnusedConnectionIsLeftAtOnce(t *testing.T) {
	for name, after := range after {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := trial(t, nil)
				unread(t, client, func(n int32, host *tls.Conn, raw net.Conn, keys string) {
					_, _ = host.Write([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
					if n == 1 {
						_, _ = raw.Write(after(host, keys))
					}
				})
				start, requests := time.Now(), 2
				if name == "nothing" {
					requests = 1
				}
				for range requests {
					if a, err := post(t, client, "https://a.hosts.test/inbox"); err != nil || a.Status != http.StatusAccepted {
						t.Fatalf("%+v %v", a, err)
					}
				}
				client.transport.(*pool).closeIdle()
				if took := time.Since(start); took > 2*closeTime {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestAnUnusedHTTP2ConnectionIsLeftAtOnce: net/http waits for a quarter of a second until the
// host has taken the close-notify, for one connection after the other.
func TestAnUnusedHTTP2ConnectionIsLeftAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert, authorities := certificate(t)
		client := trial(t, nil)
		client.transport.(*pool).secure = func(ctx context.Context, _ string) (dialled, error) {
			ours, theirs := net.Pipe()
			go func() {
				host := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, SessionTicketsDisabled: true})
				if _, err := io.ReadFull(host, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				f := http2.NewFramer(host, host)
				_ = f.WriteSettings()
				acknowledged, stream := false, uint32(0)
				for !acknowledged || stream == 0 {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					if settings, ok := frame.(*http2.SettingsFrame); ok && settings.IsAck() {
						acknowledged = true
					}
					if end, ok := frame.(interface{ StreamEnded() bool }); ok && end.StreamEnded() {
						stream = frame.Header().StreamID
					}
				}
				accepted(f, stream)
			}()
			conn := tls.Client(ours, &tls.Config{RootCAs: authorities, ServerName: "a.hosts.test", NextProtos: []string{"h2"}})
			if err := conn.HandshakeContext(ctx); err != nil {
				return dialled{}, err
			}
			return dialled{Conn: conn, raw: ours}, nil
		}
		if a, err := post(t, client, "https://a.hosts.test/inbox"); err != nil || a.Status != http.StatusAccepted {
			t.Fatalf("%+v %v", a, err)
		}
		start := time.Now()
		client.transport.(*pool).closeIdle()
		if took := time.Since(start); took > closeTime {
			t.Errorf("took %v", took)
		}
	})
}
