package client

import (
	"bytes"
	"io"
	"net/http"
)

// Inside carries requests to a handler of the same process, without a connection: the
// page and the metrics of `fedpost up` use the API as everybody does, and are allowed
// what their caller is.
type Inside struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (i Inside) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "inside"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer in.Body.Close()
	out := &answer{header: http.Header{}, status: http.StatusOK}
	i.Handler.ServeHTTP(out, in)
	// A handler stops early when its caller has gone, and what it wrote is no answer.
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

// InsideOf returns a client of a handler in the same process.
func InsideOf(h http.Handler, token string) *Client {
	return &Client{Base: "http://inside", Token: token, HTTP: &http.Client{Transport: Inside{h}}}
}
