package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is a refusal (RFC 9457). A misspelt field, a missing route and a crash all have
// this shape. Problem implements error: handlers return it, and so does the client.
// https://www.rfc-editor.org/rfc/rfc9457
type Problem struct {
	// Type is a URI by which programs tell kinds of problems apart, or "about:blank" if
	// the status is enough.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is for people: what was wrong and what to do.
	Detail string `json:"detail,omitempty"`
	// Errors lists the single faults of a document.
	Errors []FieldError `json:"errors,omitempty"`
	// ID is the activity that a conflict is with.
	ID string `json:"id,omitempty"`
	// RequestID finds the request in the logs.
	RequestID string `json:"requestId,omitempty"`

	// RetryAfter is the header of that name; the server rounds it up to seconds.
	RetryAfter time.Duration `json:"-"`
	// Header holds further headers of the answer.
	Header http.Header `json:"-"`
	// Cause is for the log only.
	Cause error `json:"-"`
}

// FieldError is one fault of a document: where (a JSON pointer in URI fragment
// form, as in RFC 9457's own example) and what.
type FieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// NewProblem returns a problem of type "about:blank".
func NewProblem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// TypedProblem returns a problem of one of fedpost's own kinds.
func TypedProblem(status int, kind, title, detail string) *Problem {
	return &Problem{Type: "urn:fedpost:problem:" + kind, Title: title, Status: status, Detail: detail}
}

// Because returns p with the cause that the log shows.
func (p *Problem) Because(err error) *Problem {
	p.Cause = err
	return p
}

// After returns p with a Retry-After header.
func (p *Problem) After(d time.Duration) *Problem {
	p.RetryAfter = d
	return p
}

// Error implements error: the status, what is wrong, each fault with its place,
// and the cause where it is known.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		fmt.Fprintf(&b, ": %s", p.Detail)
	}
	for _, f := range p.Errors {
		if strings.Contains(p.Detail, f.Detail) {
			continue // the detail names the first fault, and most problems have one only
		}
		fmt.Fprintf(&b, "; %s: %s", f.Pointer, f.Detail)
	}
	if p.Cause != nil {
		fmt.Fprintf(&b, ": %v", p.Cause)
	}
	return b.String()
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// ProblemOf returns err as a problem. An err that is no problem becomes a 500 without
// its text, because an internal error may name hosts, tables or secrets.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return NewProblem(http.StatusInternalServerError,
		"Something went wrong on our side. The log has the details under the request id.").Because(err)
}

// Write answers with p.
func (p *Problem) Write(w http.ResponseWriter) error {
	h := w.Header()
	for k, vs := range p.Header {
		h[k] = vs
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	h.Set("Content-Type", ProblemType)
	w.WriteHeader(p.Status)
	return json.NewEncoder(w).Encode(p)
}
