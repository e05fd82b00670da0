package fediverse

import (
	"net"
	"net/http"
)

// Step is what an Inbox does with one POST.
type Step struct {
	// Code is the status answered; 0: no answer.
	Code int
	// Header is added to the answer.
	Header http.Header
	Body   string
	// hang keeps the sender waiting until it gives up; reset breaks the connection.
	hang, reset bool
	// gate delays the answer until it is closed.
}

// Status answers with a status.
func Status(code int) Step { return Step{Code: code} }

// RetryAfter answers with a status and a Retry-After header.
func RetryAfter(code int, value string) Step {
	return Step{Code: code, Header: http.Header{"Retry-After": {value}}}
}

// Redirect answers with a status and a Location header.
func Redirect(code int, location string) Step {
	return Step{Code: code, Header: http.Header{"Location": {location}}}
}

// Hang keeps the sender waiting until it gives up.
func Hang() Step { return Step{hang: true} }

// Reset breaks the connection instead of answering: the sender cannot know
// whether the activity was taken.
func Reset() Step { return Step{reset: true} }

func (s Step) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case s.reset:
		reset(w)
		panic(http.ErrAbortHandler)
	}
	for name, values := range s.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(s.Code)
	if s.Body != "" {
		// An error only means that the sender has closed the connection.
		_, _ = w.Write([]byte(s.Body))
	}
}

// reset closes the connection with unsent data discarded, which TCP tells the
// other side with RST instead of FIN.
func reset(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	conn, _, err := h.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// SetLinger fails only if the other side has closed the connection first.
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
