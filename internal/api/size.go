package api

import (
	"io"
	"net/http"
)

// A request reaches Lambda as a string in a JSON document, its event, of which
// Lambda takes 6 MB. A larger one is refused wherever fedpost runs, so that what
// works with `fedpost up` works on AWS.
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
const (
	maxEvent = 6 << 20
	// envelope is for the rest of the event: headers, of which API Gateway takes
	// 10 KB and which it names twice, path, query and context.
	envelope = 64 << 10
	// MaxRequest is the default limit of a request's body, in bytes as a string in
	// JSON.
	MaxRequest = maxEvent - envelope
)

// asString is a request's body of which at most limit bytes are read, counted as
// in a string in JSON. Beyond that the error is an *http.MaxBytesError.
type asString struct {
	io.ReadCloser
	left, limit int64
}

func newAsString(w http.ResponseWriter, body io.ReadCloser, limit int64) *asString {
	// MaxBytesReader has the connection closed, instead of reading the rest.
	return &asString{http.MaxBytesReader(w, body, limit), limit, limit}
}

func (s *asString) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	for _, c := range p[:n] {
		s.left -= width(c)
	}
	if s.left < 0 {
		return 0, &http.MaxBytesError{Limit: s.limit}
	}
	return n, err
}

// width is how many bytes a byte takes in a string in JSON (RFC 8259, section 7).
func width(c byte) int64 {
	switch {
	case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
		return 2
	case c < ' ':
		return 6
	}
	return 1
}
