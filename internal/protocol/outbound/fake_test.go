package outbound

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// listen serves each connection to a port on loopback with serve and returns
// its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// afterRequest reads one request, with its body, before it serves.
func afterRequest(serve func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		serve(conn)
	}
}

// say writes text and closes.
func say(text string) func(net.Conn) {
	return afterRequest(func(conn net.Conn) { _, _ = conn.Write([]byte(text)) })
}

// forever repeats a text until the other side has gone.
func forever(start, text string, pause time.Duration) func(net.Conn) {
	again := []byte(text)
	return afterRequest(func(conn net.Conn) {
		_, err := conn.Write([]byte(start))
		tick := time.NewTicker(max(pause, 1))
		defer tick.Stop()
		for ; err == nil; _, err = conn.Write(again) {
			if pause > 0 {
				<-tick.C
			}
		}
	})
}

// pipe lets client talk to serve within the process, so that synctest knows when all wait.
func pipe(client *Client, serve func(net.Conn)) {
	client.transport.(*pool).plain = func(context.Context, string) (dialled, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs)
		}()
		return dialled{Conn: ours, raw: ours}, nil
	}
}

// accepting answers 202 to every request of a connection, and counts the connections.
func accepting(connections *atomic.Int32) func(net.Conn) {
	return func(conn net.Conn) {
		connections.Add(1)
		for in := bufio.NewReader(conn); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if _, err := conn.Write([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")); err != nil {
				return
			}
		}
	}
}

// trial returns a client that may talk to loopback. Its timeouts are longer than tests
// last: one that matters to a test is set there.
func trial(t *testing.T, change func(*Config)) *Client {
	t.Helper()
	c := Config{UserAgent: "fedpost/test", AllowPrivate: true, Timeout: time.Hour, Body: time.Hour}
	if change != nil {
		change(&c)
	}
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func post(t *testing.T, c *Client, url string) (Answer, error) {
	t.Helper()
	r, err := NewRequest(t.Context(), http.MethodPost, url, `{"id":"x"}`)
	if err != nil {
		return Answer{}, err
	}
	return c.Do(t.Context(), r)
}

// zone is a DNS server's content: addresses by name. A name with none exists,
// but has no address; one that is not there does not exist.
type zone map[string][]string

// zoneChange guards a zone that changes while it is served.
var zoneChange sync.RWMutex

// resolver returns a resolver that asks a real DNS server on loopback.
// Names under silent. are not answered, those under broken. with SERVFAIL.
func resolver(t *testing.T, z zone) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			answer, err := z.answer(buf[:n])
			if err != nil {
				continue
			}
			if _, err := conn.WriteTo(answer, from); err != nil {
				return
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (z zone) answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, errors.New("not a query")
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	if strings.HasSuffix(name, ".silent") {
		return nil, errors.New("no answer")
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	zoneChange.RLock()
	addrs, ok := z[name]
	zoneChange.RUnlock()
	switch {
	case strings.HasSuffix(name, ".broken"):
		m.RCode = dnsmessage.RCodeServerFailure
	case !ok:
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, s := range addrs {
		a := netip.MustParseAddr(s)
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET, TTL: 1}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return m.Pack()
}

// portOf returns the port in a URL.
func portOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// directory returns a resolver that asks z in this process, where no packet is
// lost however many ask at once.
func directory(z zone) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for {
				// As over TCP each message follows its length (RFC 1035, section 4.2.2).
				size := make([]byte, 2)
				if _, err := io.ReadFull(theirs, size); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size))
				if _, err := io.ReadFull(theirs, query); err != nil {
					return
				}
				answer, err := z.answer(query)
				if err != nil {
					return
				}
				if _, err := theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}}
}
