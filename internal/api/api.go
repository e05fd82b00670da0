// Package api serves fedpost's HTTP API: it reads requests strictly, hands them to the
// domain packages, and turns results and errors into answers.
//
// Reading is strict, because an activity with a misspelt "delay" would be sent at once. An
// answer lists all faults of a request, each with its place. The wire contract is
// docs/openapi.yaml; tests compare the handlers with it.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/problem"
	"fedpost/internal/enqueue"
	"fedpost/internal/keys"
	"fedpost/internal/ledger"
	"fedpost/internal/message/tracing"
	"fedpost/internal/protocol"
)

// Enqueuer accepts activities.
type Enqueuer interface {
	Enqueue(ctx context.Context, r enqueue.Request) (enqueue.Result, error)
	EnqueueBatch(ctx context.Context, r enqueue.BatchRequest) ([]enqueue.Result, error)
	Check(ctx context.Context, r enqueue.Request) (enqueue.Preview, error)
	CheckBatch(ctx context.Context, r enqueue.BatchRequest) ([]enqueue.Fault, error)
}

// Activities shows and cancels activities.
type Activities interface {
	// View returns an activity with up to limit of its recipients that f selects, from
	// cursor on, or an error that wraps ledger.ErrNotFound or ledger.ErrBadCursor.
	View(ctx context.Context, id activity.ID, f ledger.RecipientFilter, cursor string, limit int) (ledger.View, error)
	// CancelActivity stops what is not delivered yet, or returns an error that
	// wraps ledger.ErrNotFound.
	CancelActivity(ctx context.Context, id activity.ID) error
}

// Route is a route that another package serves.
type Route struct {
	// Pattern is one of http.ServeMux, such as "GET /v1/servers/{host}".
	Pattern string
	Handler http.Handler
	// Public: the route needs no authentication.
	Public bool
}

type Options struct {
	Enqueuer   Enqueuer
	Keys       *keys.Ring
	Activities Activities
	Protocols  protocol.Set
	// Routes of other packages.
	Routes []Route
	// Refuses returns an error if fedpost refuses an inbox's address; nil: it refuses none.
	Refuses func(inbox string) error

	// Writable returns an error if the table cannot be written. /healthz calls it at most
	// once in HealthEvery; nil: /healthz always answers 200.
	Writable func(context.Context) error
	// Files opens and closes a file, for /healthz; nil: one of this machine.
	Files func() error

	// Tokens, if any is set, are required by all routes that are not public.
	Tokens Tokens
	// RequestsPerMinute is the rate limit for each token, and for all requests without one
	// together; 0: none. Public routes are not counted.
	RequestsPerMinute int

	Now func() time.Time
	// RequestID makes an id for a request without one.
	RequestID func() string
	// Counted, if set, is called with Faults for each answer of 500 or more that fedpost
	// causes, and with Limited for each request over RequestsPerMinute.
	Counted func(what string, n int)
	// Trace makes spans of requests that may change something; nil: none.
	Trace *tracing.Tracer
	Log   *slog.Logger
}

// Names that Options.Counted is called with.
const (
	// Faults are failures of fedpost. No stranger can cause one.
	Faults = "Faults"
	// Limited requests were over RequestsPerMinute.
	Limited = "Limited"
)

// API is the handler of all routes.
type API struct {
	o      Options
	mux    *http.ServeMux
	routes []Route
	public map[string]bool // patterns
	// exact has the paths of patterns with a method and without a wildcard.
	exact map[string]bool
	// limits is nil without RequestsPerMinute.
	limits *limits
}

// New returns the API. It panics if two routes clash.
func New(o Options) *API {
	a := &API{o: o, mux: http.NewServeMux(), public: map[string]bool{}, exact: map[string]bool{}, limits: newLimits(o.RequestsPerMinute, o.Tokens)}
	a.routes = append([]Route{
		{Pattern: "POST /v1/activities", Handler: Func(a.postActivity)},
		{Pattern: "POST /v1/activities/batch", Handler: Func(a.postBatch)},
		{Pattern: "POST /v1/activities/check", Handler: Func(a.checkActivity)},
		{Pattern: "GET /v1/activities/{id}", Handler: Func(OfActivity(a.getActivity))},
		{Pattern: "POST /v1/activities/{id}/cancel", Handler: Func(OfActivity(a.cancelActivity))},
		{Pattern: "POST /v1/keys", Handler: Func(a.postKey)},
		{Pattern: "PUT /v1/keys/{id}", Handler: Func(a.putKey)},
		{Pattern: "GET /v1/keys/{id}", Handler: Func(a.getKey)},
		{Pattern: healthRoute, Handler: Func((&health{o: o}).serve), Public: true},
	}, o.Routes...)
	for _, r := range a.routes {
		a.mux.Handle(r.Pattern, r.Handler)
		a.public[r.Pattern] = r.Public
		if _, path, ok := strings.Cut(r.Pattern, " "); ok && !wild(path) {
			a.exact[path] = true
		}
	}
	return a
}

func (a *API) Patterns() []string {
	ps := make([]string, len(a.routes))
	for i, r := range a.routes {
		ps[i] = r.Pattern
	}
	return ps
}

// Func makes a handler of a function that returns the answer: nil for one without a body, a Reply,
// or what is written as JSON with the status 200. If it returns an error, the error is the answer:
// a *problem.Problem as it is, any other error as a 500.
func Func(f func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err == nil {
			err = answer(w, r, v)
		}
		if err != nil {
			Fail(w, r, err)
		}
	})
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.observe(w, r, func(w *recorder, r *http.Request) string {
		_, pattern := a.mux.Handler(r)
		public, ours := a.public[pattern]
		if err := a.admit(w.Header(), r, pattern, public); err != nil {
			a.turnAway(w, r, err)
			return pattern
		}
		if !ours || !canonical(r) || a.exact[r.URL.Path] && wild(pattern) {
			a.turnAway(w, r, a.unrouted(r))
			return ""
		}
		r.Body = newAsString(w, r.Body, MaxRequest)
		if public || r.Method == http.MethodGet || r.Method == http.MethodHead {
			// Strangers' requests and polls make no spans.
			a.mux.ServeHTTP(w, r)
			return pattern
		}
		a.traced(w, r, pattern)
		return pattern
	})
}

// canonical reports whether ServeMux takes the path as it is. It would redirect others, and
// most clients do not follow a redirect of a POST.
func canonical(r *http.Request) bool {
	p := r.URL.EscapedPath()
	return strings.HasPrefix(p, "/") && !strings.Contains(p, "//") &&
		!strings.Contains(p+"/", "/./") && !strings.Contains(p+"/", "/../")
}

// unrouted is the problem of a request without a route.
func (a *API) unrouted(r *http.Request) *problem.Problem {
	if allowed := a.methods(r, r.URL.EscapedPath()); allowed != "" && canonical(r) {
		p := problem.New(http.StatusMethodNotAllowed, "This route takes "+allowed+", not "+cut(r.Method)+".")
		p.Header = http.Header{"Allow": {allowed}}
		return p
	}
	if path, slash := strings.CutSuffix(r.URL.EscapedPath(), "/"); slash && a.methods(r, path) != "" {
		return problem.New(http.StatusNotFound, "There is no such route: leave out the slash at the end of the path.")
	}
	return problem.New(http.StatusNotFound, "There is no such route. Ids in a path are percent-encoded whole, slashes and all.")
}

// methods lists the methods that a path takes, empty if there is no such path. ServeMux alone would
// use those of /v1/activities/{id} for /v1/activities/batch, too.
func (a *API) methods(r *http.Request, path string) string {
	u, err := url.Parse(path)
	if err != nil {
		return ""
	}
	var all []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
		_, pattern := a.mux.Handler(&http.Request{Method: method, URL: u, Host: r.Host})
		if pattern != "" && !(a.exact[u.Path] && wild(pattern)) {
			all = append(all, method)
		}
	}
	return strings.Join(all, ", ")
}

// wild reports whether a pattern has a wildcard.
func wild(pattern string) bool { return strings.Contains(pattern, "{") }
