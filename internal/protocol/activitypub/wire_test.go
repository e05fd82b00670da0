package activitypub_test

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/property"
)

// heads listens on loopback and returns the head of every request as it came.
func heads(t *testing.T) (port string, got <-chan []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	lines := make(chan []string, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			var head []string
			for {
				line, err := in.ReadString('\n')
				if line = strings.TrimSpace(line); err != nil || line == "" {
					break
				}
				head = append(head, line)
			}
			lines <- head
			_, _ = conn.Write([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			conn.Close()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, lines
}

// TestTheWireHasTheCanonicalURL: request target, Host and what is signed are
// those of the URL as it was enqueued, byte for byte except dot segments.
func TestTheWireHasTheCanonicalURL(t *testing.T) {
	port, got := heads(t)
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	p := sender{&activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client, Forms: newForms(), Now: time.Now, Date: time.Now}}
	arrives := func(t interface{ Errorf(string, ...any) }, enqueued, target, host string) {
		canonical, err := activity.CanonicalURL(enqueued)
		if err != nil {
			t.Errorf("%s: %v", enqueued, err)
			return
		}
		if o := p.Attempt(context.Background(), note(`{"id":"x"}`), to(canonical)); o.Class != outcome.Delivered {
			t.Errorf("%s: %+v", enqueued, o)
			return
		}
		head := <-got
		if want := "POST " + target + " HTTP/1.1"; head[0] != want {
			t.Errorf("%s: request line %q, want %q", enqueued, head[0], want)
		}
		for _, line := range head {
			if name, value, _ := strings.Cut(line, ": "); name == "Host" && value != host {
				t.Errorf("%s: Host %q, want %q", enqueued, value, host)
			}
		}
		u, err := url.Parse(canonical)
		if err != nil || to(canonical).Host() != host || u.Host != host {
			t.Errorf("%s: known as %q, dialled as %q, sent as %q", enqueued, to(canonical).Host(), u.Host, host)
		}
	}
	local := "127.0.0.1:" + port
	for enqueued, target := range map[string]string{
		"/a%2Fb/ü": "/a%2Fb/%C3%BC", "/a%2fb/%c3%bc?x=%2F&y=ü": "/a%2fb/%c3%bc?x=%2F&y=%C3%BC", "/users/a%20b/inbox": "/users/a%20b/inbox",
		"/a/./b/../c/inbox": "/a/c/inbox", "/a/%2e%2E/inbox": "/inbox", "": "/", "?": "/", "/inbox?": "/inbox", "//inbox": "//inbox",
		"/~a!$&'()*+,;=:@b": "/~a!$&'()*+,;=:@b", "/inbox#part": "/inbox", "/a;b=c/inbox?a=b?c": "/a;b=c/inbox?a=b?c",
	} {
		arrives(t, "HTTP://"+local+enqueued, target, local)
	}
	property.Check(t, func(t *rapid.T) {
		segment := rapid.StringMatching(`([a-zA-Z0-9~!$&'()*+,;=:@_-]|%2[Ff]|%C3%BC|%25)+`)
		path := "/" + strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "path"), "/")
		if query := rapid.StringMatching(`([a-z0-9=&/?;+]|%2F|%c3%bc)*`).Draw(t, "query"); query != "" {
			path += "?" + query
		}
		arrives(t, "http://"+local+path, path, local)
	})
}
