package outbound

import (
	"io"
	"log"
	"sync"

	"fedpost/internal/activity/outcome"
)

// Excerpt returns the beginning of the body, cleaned by outcome.Text.
func (a Answer) Excerpt() string { return outcome.Text(string(a.Body)) }

// brief cuts and cleans the text of err (outcome.Text): net/http quotes malformed headers of up to
// 64 KB, and crypto/x509 all names of a certificate.
func brief(err error) error { return &briefError{err, outcome.Text(err.Error())} }

type briefError struct {
	error
	text string
}

func (e *briefError) Error() string { return e.text }
func (e *briefError) Unwrap() error { return e.error }

// quiet keeps strangers' text out of the standard logger, to which net/http writes: it cuts and cleans
// each line.
type quiet struct{ io.Writer }

func (q quiet) Write(line []byte) (int, error) {
	if _, err := io.WriteString(q.Writer, outcome.Text(string(line))+"\n"); err != nil {
		return 0, err
	}
	return len(line), nil
}

var quieting sync.Mutex

// quieten wraps the standard logger's output, once. fedpost itself logs by slog.
func quieten() {
	quieting.Lock()
	defer quieting.Unlock()
	if _, done := log.Writer().(quiet); !done {
		log.SetOutput(quiet{log.Writer()})
	}
}
