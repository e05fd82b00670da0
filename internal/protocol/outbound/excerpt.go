package outbound

import "fedpost/internal/activity/outcome"

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
