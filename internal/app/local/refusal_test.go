package local

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/api/problem"
)

// TestRequestsThatReachNoHandlerAreRefusedAsProblems: schemathesis found /%zz answered with
// plain text, which is net/http's.
func TestRequestsThatReachNoHandlerAreRefusedAsProblems(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		status  int
		says    string
	}{
		"malformed escape":  {"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "hexadecimal"},
		"no HTTP":           {"hello\r\n\r\n", 400, "not valid HTTP"},
		"no host":           {"GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"large header":      {"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", 431, "larger than 65536 bytes"},
		"transfer encoding": {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "transfer encoding"},
		"HTTP 3":            {"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, "unsupported protocol version"},
	} {
		serving(t, func(p pipes) {
			conn := p.dial(c.request)
			defer conn.Close()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer res.Body.Close()
			var got client.Problem
			if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if res.StatusCode != c.status || got.Status != c.status || res.Header.Get("Content-Type") != problem.MediaType || !res.Close {
				t.Errorf("%s is answered %d %v %+v", name, res.StatusCode, res.Header, got)
			}
			if !strings.Contains(got.Detail, c.says) || got.Title != http.StatusText(c.status) {
				t.Errorf("%s: %+v does not say %q", name, got, c.says)
			}
		})
	}
}

// TestAnswersOfHandlersAreLeftAlone: whatever a handler writes, also what looks like a
// refusal, goes out as it is.
func TestAnswersOfHandlersAreLeftAlone(t *testing.T) {
	for _, b := range []string{
		"", "HTTP/1.1 ", "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nx",
		"x" + "HTTP/1.1 400 Bad Request" + refusalEnd, "HTTP/1.1 4" + refusalEnd, "HTTP/1.1 abc" + refusalEnd,
	} {
		if got := problemOf([]byte(b)); got != nil {
			t.Errorf("%q becomes %q", b, got)
		}
	}
}
