package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"fedpost/internal/api/problem"
)

// refusalEnd follows the status line where net/http itself refuses a request, such as GET /%zz.
// Answers of handlers differ: they have a Date.
const refusalEnd = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write replaces net/http's own refusals.
func (c *boundedConn) Write(b []byte) (int, error) { return writeProblem(c.Conn, b) }

// writeProblem writes b, as a problem document if b is one of net/http's own refusals, which are
// plain text. net/http writes each of them in one call, and offers no other hook.
func writeProblem(to io.Writer, b []byte) (int, error) {
	refusal := problemOf(b)
	if refusal == nil {
		return to.Write(b)
	}
	if _, err := to.Write(refusal); err != nil {
		return 0, err
	}
	return len(b), nil
}

// problemOf is a refusal of net/http as a problem document (RFC 9457); nil if b is none.
func problemOf(b []byte) []byte {
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return nil
	}
	line, text, ok := bytes.Cut(b, []byte(refusalEnd))
	if !ok || bytes.Contains(line, []byte("\r\n")) || len(line) < len("HTTP/1.1 400") {
		return nil
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return nil
	}
	detail := "The server refused the request: " + string(text) + "."
	switch status {
	case http.StatusBadRequest:
		if string(text) == "400 Bad Request" {
			detail = "The request is not valid HTTP, or its URL is malformed: each % must be followed by two hexadecimal digits."
		}
	case http.StatusRequestHeaderFieldsTooLarge:
		detail = fmt.Sprintf("The header of the request is larger than %d bytes.", maxHeader)
	}
	return refusalOf(status, detail)
}

// refusalOf is an HTTP response with a problem document; nil if it cannot be encoded.
func refusalOf(status int, detail string) []byte {
	body, err := json.Marshal(problem.New(status, detail))
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), problem.MediaType, len(body), body)
}
