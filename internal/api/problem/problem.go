// Package problem has the refusals of fedpost's HTTP API: problem documents.
// https://www.rfc-editor.org/rfc/rfc9457
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"fedpost/client"
)

const MediaType = "application/problem+json"

// Problem is a refusal that a handler returns as an error.
type Problem struct {
	client.Problem
	// Header holds further headers of the answer.
	Header http.Header `json:"-"`
	// Cause is for the log only.
	Cause error `json:"-"`
}

// New returns a problem of type "about:blank".
func New(status int, detail string) *Problem {
	return &Problem{Problem: client.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}}
}

// Typed returns a problem of one of fedpost's own kinds.
func Typed(status int, kind, title, detail string) *Problem {
	return &Problem{Problem: client.Problem{Type: "urn:fedpost:problem:" + kind, Title: title, Status: status, Detail: detail}}
}

// Because returns p with the cause that the log shows.
func (p *Problem) Because(err error) *Problem {
	p.Cause = err
	return p
}

// After returns p with a Retry-After header, rounded up to seconds.
func (p *Problem) After(d time.Duration) *Problem {
	p.RetryAfter = d
	return p
}

// Error implements error. It adds the cause, if that is known.
func (p *Problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%s: %v", p.Problem.Error(), p.Cause)
	}
	return p.Problem.Error()
}

func (p *Problem) Unwrap() error { return p.Cause }

// Of returns err as a problem. Any other error becomes a 500 without its text, which may have hosts,
// tables or secrets.
func Of(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return New(http.StatusInternalServerError,
		"Something went wrong on our side. The log has the details under the request id.").Because(err)
}

func (p *Problem) Write(w http.ResponseWriter) error {
	h := w.Header()
	for k, vs := range p.Header {
		h[k] = vs
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	h.Set("Content-Type", MediaType)
	w.WriteHeader(p.Status)
	return json.NewEncoder(w).Encode(p)
}
