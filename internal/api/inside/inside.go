// Package inside is a client of the API in the same process, for the page and the metrics of `fedpost
// up`, with the rights of their caller.
package inside

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"fedpost/client"
)

// transport carries requests to a handler without a connection.
type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "inside"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer in.Body.Close()
	out := &answer{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(out, in)
	// The answer to a caller that has gone is incomplete.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(out.status), StatusCode: out.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()), Request: r,
	}, nil
}

// answer keeps what a handler writes.
type answer struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.wrote = true
	return a.body.Write(b)
}

// Client returns a client of a handler in the same process. It does not retry, so that the page shows
// failures.
func Client(h http.Handler, token string) *client.Client {
	c, err := client.New("http://inside", client.Token(token), client.Patience(0), client.HTTPClient(&http.Client{Transport: transport{h}}))
	if err != nil {
		panic(err) // the address is a constant
	}
	return c
}

// Lately reads statistics for a page or a scrape that repeats every few seconds. It requests the
// expensive count of waiting deliveries once in Every at most.
type Lately struct {
	Every time.Duration
	Now   func() time.Time

	mu      sync.Mutex
	at      time.Time
	waiting *client.WaitingInAll
}

// Stats returns GET /v1/stats, with Waiting.
func (l *Lately) Stats(ctx context.Context, c *client.Client) (s client.Stats, err error) {
	l.mu.Lock()
	known, now := l.waiting, l.Now()
	if age := now.Sub(l.at); age < 0 || age >= l.Every {
		known = nil
	}
	l.mu.Unlock()
	if s, err = c.Stats(ctx, client.StatsQuery{Waiting: known == nil}); err != nil {
		return client.Stats{}, err
	}
	if known != nil {
		s.Waiting = known
		return s, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.waiting = now, s.Waiting
	return s, nil
}
