package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"fedpost/internal/api/problem"
)

// ReadInput reads the body of a request that has no query. The body may be left out.
func ReadInput(r *http.Request) *Object {
	if err := ReadQuery(r).Check(); err != nil {
		return parse(nil, err)
	}
	buffered := bufio.NewReader(r.Body)
	if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
		return parse([]byte("{}"), nil)
	}
	r.Body = io.NopCloser(buffered)
	return readObject(r)
}

// readObject reads the body of a request. If it is no JSON object, that is what Check returns.
func readObject(r *http.Request) *Object { return parse(readBody(r)) }

func readBody(r *http.Request) ([]byte, error) {
	if err := checkMediaType(r.Header); err != nil {
		return nil, err
	}
	var read bytes.Buffer
	// A claimed length must not cost memory before the body comes.
	read.Grow(int(min(max(0, r.ContentLength), 8<<10)) + bytes.MinRead)
	_, err := read.ReadFrom(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem.New(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The request is larger than %d bytes, the limit of AWS Lambda (quotes, backslashes and line breaks count twice). Send fewer recipients or activities in one request.", tooLarge.Limit))
	case err != nil:
		return nil, problem.New(http.StatusBadRequest, "The request's body could not be read to its end.").Because(err)
	}
	return read.Bytes(), nil
}

// parse reads a request, which has to be one JSON object, unless err says why there is none.
func parse(body []byte, err error) *Object {
	if err == nil {
		err = checkJSON(body)
	}
	if err != nil {
		return &Object{faults: &faults{unread: err}}
	}
	o, ok := newObject("", body, &faults{})
	if !ok {
		o.faults.unread = problem.New(http.StatusBadRequest, "The request's body is not a JSON object.")
	}
	return o
}

// checkMediaType accepts application/json only: the body is not an activity, so ActivityPub's
// media types would be wrong.
func checkMediaType(h http.Header) error {
	refuse := func(detail string) error {
		p := problem.New(http.StatusUnsupportedMediaType, detail)
		p.Header = http.Header{"Accept-Post": {"application/json"}}
		return p
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refuse("Send the body without Content-Encoding.")
	}
	given := h.Get("Content-Type")
	if given == "" {
		return refuse("The request has no Content-Type. Send application/json.")
	}
	mediaType, params, err := mime.ParseMediaType(given)
	if err != nil || mediaType != "application/json" {
		return refuse(fmt.Sprintf("Content-Type is %q. Send application/json.", given))
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return refuse(fmt.Sprintf("The charset is %q. JSON is UTF-8.", charset))
	}
	return nil
}

// checkJSON returns a problem with the first place where body is not JSON.
func checkJSON(body []byte) error {
	malformed := func(offset int, what string) error {
		line, column := position(body, offset)
		return problem.Typed(http.StatusBadRequest, "malformed-json", "Malformed JSON",
			fmt.Sprintf("At line %d, column %d: %s.", line, column, what))
	}
	if !utf8.Valid(body) {
		offset := 0
		for offset < len(body) {
			r, size := utf8.DecodeRune(body[offset:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			offset += size
		}
		return malformed(offset, "the text is not UTF-8")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return problem.Typed(http.StatusBadRequest, "malformed-json", "Malformed JSON", "The body is empty. Send a JSON object.")
	}
	if json.Valid(body) {
		return nil
	}
	var whole json.RawMessage
	err := json.Unmarshal(body, &whole)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		// Offset counts the bytes read, including the wrong byte.
		offset := int(syntax.Offset)
		if offset < len(body) || !strings.HasPrefix(syntax.Error(), "unexpected end") {
			offset--
		}
		for offset > 0 && offset < len(body) && !utf8.RuneStart(body[offset]) {
			offset-- // Go 1.27 counts the whole wrong character.
		}
		return malformed(max(offset, 0), syntax.Error())
	case err != nil:
		return malformed(0, err.Error())
	}
	return nil
}

func position(text []byte, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[start:]) + 1
}

// Reply is an answer with headers, or with another status than 200.
type Reply struct {
	Status     int
	Location   string // the path of what was made; empty: no such header
	RetryAfter int    // in seconds; 0: no such header
	Body       any    // written as JSON
}

// answer writes what a handler returns; see Func.
func answer(w http.ResponseWriter, r *http.Request, v any) error {
	if v == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	reply, ok := v.(Reply)
	if !ok {
		reply = Reply{Status: http.StatusOK, Body: v}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(reply.Body); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if reply.Location != "" {
		h.Set("Location", reply.Location)
	}
	if reply.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(reply.RetryAfter))
	}
	w.WriteHeader(reply.Status)
	if _, err := w.Write(b.Bytes()); err != nil {
		// The client has disconnected: the error can only be logged.
		if known := requestOf(r.Context()); known != nil {
			known.cause = err
		}
	}
	return nil
}

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
