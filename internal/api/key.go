package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"fedpost/internal/enqueue"
)

const headerIdempotencyKey = "Idempotency-Key"

// readKey reads the call's deduplication key, from the body or the header, its window, and what
// must be the same in a repeated call.
func readKey(o *Object, h http.Header) (*string, time.Duration, enqueue.DeduplicateBy) {
	key := o.optional("deduplicationKey")
	ttl := o.Duration("deduplicationTtl", time.Second)
	by := enqueue.DeduplicateBy(o.Text("deduplicateBy"))
	values := h.Values(headerIdempotencyKey)
	if len(values) == 0 {
		return key, ttl, by
	}
	header, err := idempotencyKey(values)
	switch {
	case err != nil:
		o.faults.add("/deduplicationKey", "is given as %s header, which %v", headerIdempotencyKey, err)
	case key != nil && *key != header:
		o.Fault("deduplicationKey", "differs from the %s header; give one of them, or the same", headerIdempotencyKey)
	default:
		key = &header
	}
	return key, ttl, by
}

// idempotencyKey reads the header: a string in the sense of structured fields,
// as the draft wants, or anything else as it stands, as most clients send it.
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
// https://www.rfc-editor.org/rfc/rfc9651#name-parsing-a-string
func idempotencyKey(values []string) (string, error) {
	// Some gateways split a header at its commas.
	s := strings.TrimSpace(strings.Join(values, ","))
	if s == "" {
		return "", errors.New("is empty")
	}
	if s[0] != '"' {
		return s, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			rest := strings.TrimSpace(s[i+1:])
			if rest != "" && rest[0] != ';' {
				return "", errors.New("goes on after its closing quote")
			}
			if b.Len() == 0 {
				return "", errors.New("is empty")
			}
			return b.String(), nil
		case c == '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", errors.New(`has a backslash that escapes neither " nor \`)
			}
			b.WriteByte(s[i])
		case c < ' ' || c > '~':
			return "", errors.New("holds a character that is not printable ASCII")
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("has no closing quote")
}
