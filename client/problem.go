package client

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Problem is a refusal of fedpost (RFC 9457), as an error: errors.As finds it in what a
// method returns.
// https://www.rfc-editor.org/rfc/rfc9457
type Problem struct {
	// Type is a URI by which programs distinguish kinds of problems, or "about:blank" if
	// the status is enough.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is for people: what was wrong and what to do.
	Detail string `json:"detail,omitempty"`
	// Errors lists the single faults of a request.
	Errors []FieldError `json:"errors,omitempty"`
	// ID is the activity that a conflict is with.
	ID string `json:"id,omitempty"`
	// RequestID finds the request in the logs of fedpost.
	RequestID string `json:"requestId,omitempty"`

	// RetryAfter is the header of that name, 5 minutes at most; 0 if there is none.
	RetryAfter time.Duration `json:"-"`
}

// FieldError is one fault of a request: where (a JSON pointer as a URI fragment, as in
// RFC 9457's own example) and what.
type FieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

const (
	// maxText is the most characters that are kept of a text of a refusal; fedpost's own are
	// shorter.
	maxText = 2000
	// maxFaults is the most faults that are kept; fedpost lists no more.
	maxFaults = 100
)

// clean cuts the texts of an answer, and removes what could disturb a terminal or a log.
func (p *Problem) clean() {
	p.Errors = p.Errors[:min(len(p.Errors), maxFaults)]
	for i, f := range p.Errors {
		p.Errors[i] = FieldError{Pointer: cleaned(f.Pointer), Detail: cleaned(f.Detail)}
	}
	for _, text := range []*string{&p.Type, &p.Title, &p.Detail, &p.ID, &p.RequestID} {
		*text = cleaned(*text)
	}
}

// cleaned is a text with one space for each run of white space, control and format characters.
func cleaned(text string) string {
	words := strings.FieldsFunc(text[:min(len(text), 4*maxText)], func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
	})
	runes := []rune(strings.Join(words, " "))
	return string(runes[:min(len(runes), maxText)])
}

// Error implements error: the status, what is wrong, and each fault with its place.
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
	return b.String()
}
