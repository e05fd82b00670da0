package api

import (
	"io"
	"net/http"
)

// On AWS a request is a string in Lambda's event, a JSON document of up to 6 MB. fedpost refuses
// larger requests everywhere, so that a request that works with `fedpost up` works on AWS, too.
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
const (
	maxEvent = 6 << 20
	// envelope is the space for the rest of the event: path, query, context, and the
	// headers, of which API Gateway accepts 10 KB and lists each twice.
	envelope = 64 << 10
	// MaxRequest is the limit of a request's body, in bytes as a string in JSON.
	MaxRequest = maxEvent - envelope
)

// asString reads a request's body up to a limit. It counts bytes as they are written in a
// JSON string. Beyond the limit the error is an *http.MaxBytesError.
type asString struct {
	io.ReadCloser
	left, limit int64
}

func newAsString(w http.ResponseWriter, body io.ReadCloser, limit int64) *asString {
	// MaxBytesReader makes net/http close the connection and not read the rest.
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

// width is how many bytes a JSON string needs for a byte (RFC 8259, section 7).
func width(c byte) int64 {
	switch {
	case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
		return 2
	case c < ' ':
		return 6
	}
	return 1
}
