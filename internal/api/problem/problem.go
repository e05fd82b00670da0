// Package problem is how fedpost's HTTP interfaces say no: RFC 9457 problem
// details, the same shape for a misspelt field, a missing route and a crash.
//
// A client that can read one can read all, and a person sees what was wrong,
// where in the document, and what to do about it.
package problem

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is one refusal. It is an error, so that handlers return it.
// https://www.rfc-editor.org/rfc/rfc9457
type Problem struct {
	// Type tells kinds apart for programs: a URI, or "about:blank" where the
	// status says it all.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is for people: what was wrong and what to do.
	Detail string `json:"detail,omitempty"`
	// Errors lists the single faults of a document.
	Errors []Field `json:"errors,omitempty"`
	// ID is the activity that a conflict is with.
	ID string `json:"id,omitempty"`
	// RequestID finds the request in the logs.
	RequestID string `json:"requestId,omitempty"`

	// RetryAfter is sent as a header, rounded up to seconds.
	RetryAfter time.Duration `json:"-"`
	// Header holds further headers of the answer.
	Header http.Header `json:"-"`
	// Cause is for the log only.
	Cause error `json:"-"`
}

// Field is one fault: where (a JSON pointer in URI fragment form, as in
// RFC 9457's own example) and what.
type Field struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// New returns a problem that its status describes.
func New(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// Typed returns a problem of one of fedpost's own kinds.
func Typed(status int, kind, title, detail string) *Problem {
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

// Error implements error.
func (p *Problem) Error() string {
	s := strconv.Itoa(p.Status) + " " + p.Title
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	if p.Cause != nil {
		s += ": " + p.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// From returns the problem that err is, or a 500 that hides what it is: an
// error of ours may name hosts, tables or worse.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return New(http.StatusInternalServerError,
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
	h.Set("Content-Type", ContentType)
	w.WriteHeader(p.Status)
	return json.NewEncoder(w).Encode(p)
}
