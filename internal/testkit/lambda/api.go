package lambda

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// api serves the Runtime API to one process.
type api struct {
	mux       http.ServeMux
	events    chan invocation
	ready     chan time.Time // of the first request for an event
	initError chan error
	first     sync.Once

	mu      sync.Mutex
	id      string // of the invocation under way
	current invocation
}

type invocation struct {
	event    []byte
	deadline time.Time
	arn      string
	answer   chan answer
}

type answer struct {
	body []byte
	err  error
}

func newAPI() *api {
	a := &api{
		events: make(chan invocation), ready: make(chan time.Time, 1), initError: make(chan error, 1),
	}
	const base = "/2018-06-01/runtime/"
	a.mux.HandleFunc("GET "+base+"invocation/next", a.next)
	a.mux.HandleFunc("POST "+base+"invocation/{id}/response", a.response)
	a.mux.HandleFunc("POST "+base+"invocation/{id}/error", a.failure)
	a.mux.HandleFunc("POST "+base+"init/error", a.failedInit)
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// next blocks until there is an event. If the process asks for the next event while an
// invocation is under way, that invocation ends without an answer and the new one takes
// its place.
func (a *api) next(w http.ResponseWriter, r *http.Request) {
	a.first.Do(func() { a.ready <- time.Now() })
	var in invocation
	select {
	case in = <-a.events:
	case <-r.Context().Done():
		return
	}
	id := uuid.NewString()
	a.mu.Lock()
	a.id, a.current = id, in
	a.mu.Unlock()

	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Lambda-Runtime-Aws-Request-Id", id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(in.deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", in.arn)
	h.Set("Lambda-Runtime-Trace-Id", traceID(id, in.deadline))
	if _, err := w.Write(in.event); err != nil {
		in.answer <- answer{err: fmt.Errorf("hand over the event: %w", err)}
	}
}

// traceID has the form of X-Ray's header, unsampled.
func traceID(id string, at time.Time) string {
	hex := id[0:8] + id[9:13] + id[14:18] + id[19:23] + id[24:36]
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0", at.Unix(), hex[:24], hex[16:32])
}

// settle returns the invocation that the request's id names, at most once per id.
func (a *api) settle(w http.ResponseWriter, r *http.Request) (invocation, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id == "" || r.PathValue("id") != a.id {
		http.Error(w, `{"errorType":"InvalidRequestID","errorMessage":"no such invocation is under way"}`, http.StatusBadRequest)
		return invocation{}, false
	}
	a.id = ""
	return a.current, true
}

// responseLimit is Lambda's limit of a response.
const responseLimit = 6 << 20

func (a *api) response(w http.ResponseWriter, r *http.Request) {
	in, ok := a.settle(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, responseLimit+1))
	kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type")
	switch {
	case err != nil:
		in.answer <- answer{err: fmt.Errorf("read the response: %w", err)}
	case len(body) > responseLimit:
		in.answer <- answer{err: &Error{"Function.ResponseSizeTooLarge", "the response exceeds 6 MB"}}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	case kind != "":
		in.answer <- answer{err: trailerError(kind, r.Trailer.Get("Lambda-Runtime-Function-Error-Body"))}
	default:
		in.answer <- answer{body: body}
	}
	w.WriteHeader(http.StatusAccepted)
}

// trailerError returns an error that the function met while it wrote the response; the
// function sends such an error in the trailers.
func trailerError(kind, body string) error {
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return &Error{kind, body}
	}
	return parseError(kind, b)
}

func (a *api) failure(w http.ResponseWriter, r *http.Request) {
	in, ok := a.settle(w, r)
	if !ok {
		return
	}
	in.answer <- answer{err: readError(r)}
	w.WriteHeader(http.StatusAccepted)
}

func (a *api) failedInit(w http.ResponseWriter, r *http.Request) {
	select {
	case a.initError <- fmt.Errorf("init: %w", readError(r)):
	default: // one report is enough
	}
	w.WriteHeader(http.StatusAccepted)
}

func readError(r *http.Request) error {
	kind := r.Header.Get("Lambda-Runtime-Function-Error-Type")
	body, err := io.ReadAll(io.LimitReader(r.Body, responseLimit))
	if err != nil {
		return fmt.Errorf("read the error: %w", err)
	}
	return parseError(kind, body)
}

func parseError(kind string, body []byte) error {
	e := &Error{Type: kind}
	if err := json.Unmarshal(body, e); err != nil {
		e.Message = string(body)
	}
	return e
}
