package deliver_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/property"
	"fedpost/internal/testkit/world"
)

// malformed is a server on the loopback address that answers every request with
// a header line of n random letters, which net/http quotes in its error.
func malformed(t *testing.T, n int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	noise, draw := make([]byte, n*3/4), property.Rand(t)
	for i := range noise {
		noise[i] = byte(draw.Uint32())
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					r.Body.Close()
					fmt.Fprintf(c, "HTTP/1.1 202 Accepted\r\n%s\x1b[2J\r\n\r\n", base64.StdEncoding.EncodeToString(noise))
				}
			})
		}
	})
	return "http://" + l.Addr().String() + "/inbox"
}

// noForms remembers no signature form.
type noForms struct{}

func (noForms) Form(activity.Target) (string, bool)                 { return "", false }
func (noForms) TookForm(activity.Target, string, string, time.Time) {}

// TestHostileServersDoubleNoDelivery sends one chunk of 50 over real HTTP, in
// which 12 servers answer with a malformed header of 60 KB. Quoted in full, these
// errors made a record of over 400 KB, which no table takes: the outcomes of all
// 50 were lost, and each good inbox got the activity again at every receive.
func TestHostileServersDoubleNoDelivery(t *testing.T) {
	const hostile, chunk = 12, 50
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client, Forms: noForms{}, Now: time.Now, Date: time.Now}
	w := world.New(t, world.Options{Protocol: p})
	var to []string
	for range hostile {
		to = append(to, malformed(t, 60_000))
	}
	posts := make([]atomic.Int64, chunk-hostile)
	for i := range posts {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posts[i].Add(1) }))
		defer s.Close()
		to = append(to, s.URL+"/inbox")
	}
	a := w.Activity("Create")
	a.KeyID = fediverse.Ed25519KeyID
	id := w.Send(a, to...)
	for range 3 { // whatever came back is received again
		w.Poll(queue.Normal)
		w.Clock.Advance(10 * time.Minute)
	}
	wrong := 0
	for i := range posts {
		if n := posts[i].Load(); n != 1 {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d good inboxes got the activity not exactly once; the first %d times", wrong, len(posts), posts[0].Load())
	}
	for inbox, r := range w.States(id) {
		if len(r.LastError) > outcome.MaxText || !utf8.ValidString(r.LastError) || strings.ContainsRune(r.LastError, 0x1b) {
			t.Errorf("%s has an error of %d bytes: %.60q", inbox, len(r.LastError), r.LastError)
		}
	}
	if n := w.Log.Len(); n > 4*hostile*2*outcome.MaxText {
		t.Errorf("%d bytes of log for %d hostile answers", n, hostile*4)
	}
}
