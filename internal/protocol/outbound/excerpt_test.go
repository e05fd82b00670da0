package outbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"fedpost/internal/activity/outcome"
)

// TestErrorsOfStrangersAreCutAndCleaned: net/http and crypto/x509 quote what
// the other side sent.
func TestErrorsOfStrangersAreCutAndCleaned(t *testing.T) {
	nasty := strings.Repeat("\x1b[2J\xff\u202enonsense ", 2500) // 47 KB
	many := make([]string, 3000)
	for i := range many {
		many[i] = fmt.Sprintf("a-rather-long-name-%d.hosts.test", i)
	}
	secured, authorities := secure(t, accept, func(s *httptest.Server) {
		cert, _ := certificateFor(t, many)
		s.TLS.Certificates = []tls.Certificate{cert}
	})
	for name, url := range map[string]string{
		"a malformed header":      "http://" + listen(t, say("HTTP/1.1 103 Early Hints\r\n"+nasty+"\r\n\r\n")),
		"a malformed status":      "http://" + listen(t, say("HTTP/1.1 2xx "+nasty+"\r\n\r\n")),
		"no HTTP":                 "http://" + listen(t, say(nasty+"\r\n\r\n")),
		"a header after a status": "http://" + listen(t, say("HTTP/1.1 202 Accepted\r\n"+nasty+"\r\n\r\n")),
		"a certificate of names":  secured.URL,
		"our own bad URL":         "http://127.0.0.1/" + strings.Repeat("x", 5000) + "\x7f",
	} {
		t.Run(name, func(t *testing.T) {
			client := trial(t, func(c *Config) { c.RootCAs = authorities })
			r, err := NewRequest(t.Context(), "POST", url, "x")
			var a Answer
			if err == nil {
				a, err = client.Do(t.Context(), r)
			}
			if err == nil {
				err = a.BodyErr
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, text := range []string{err.Error(), errors.Unwrap(fmt.Errorf("wrapped: %w", err)).Error()} {
				if len(text) > outcome.MaxText || !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\r\n\u202e") {
					t.Errorf("%d bytes: %.100q", len(text), text)
				}
			}
			if reason := ReasonOf(err); reason == outcome.OtherTrouble || reason == outcome.ReasonNone {
				t.Errorf("reason %q for %v", reason, err)
			}
		})
	}
}
