package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"fedpost/client"
	"fedpost/internal/api/problem"
	"fedpost/internal/engine/table"
)

const headerRequestID = "X-Request-Id"

type ctxKey struct{}

// request holds the id of a request, and the cause of its failure for the log.
type request struct {
	id    string
	cause error // why it failed, for the log
	// repeated: the failure has been logged and counted before.
	repeated bool
}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(ctxKey{}).(*request)
	return r
}

// Fail answers r with err as a problem; see problem.Of. It adds a cause that operators can fix,
// as /healthz does, because a retry does not help then.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.Of(err)
	if why := remedy(p.Cause); why != "" && p.Status >= http.StatusInternalServerError && !strings.Contains(p.Detail, why) {
		own := *p
		own.Detail += " The cause: " + why
		p = &own
	}
	known := requestOf(r.Context())
	if known != nil {
		known.cause = p.Cause
		if p.RequestID == "" {
			// A problem may be shared between requests.
			own := *p
			own.RequestID = known.id
			p = &own
		}
	}
	if err := p.Write(w); err != nil && known != nil {
		known.cause = errors.Join(known.cause, err)
	}
}

// observe gives a request its id, writes the access log, and turns a panic into a 500.
func (a *API) observe(w http.ResponseWriter, r *http.Request, serve func(*recorder, *http.Request) string) {
	start := a.o.Now()
	known := &request{id: r.Header.Get(headerRequestID)}
	if !presentable(known.id) {
		known.id = a.o.RequestID()
	}
	r = r.WithContext(context.WithValue(r.Context(), ctxKey{}, known))
	rec := &recorder{ResponseWriter: w}
	h := rec.Header()
	h.Set(headerRequestID, known.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")

	var route string
	func() {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { // closes the connection
				panic(v)
			}
			a.o.Log.ErrorContext(r.Context(), "panic while serving", "request", known.id, "panic", v, "stack", string(debug.Stack()))
			if rec.status == 0 {
				Fail(rec, r, problem.New(http.StatusInternalServerError,
					"Something went wrong on our side. The log has the details under the request id."))
			}
		}()
		route = serve(rec, r)
	}()

	took := a.o.Now().Sub(start)
	level, attrs := slog.LevelInfo, []any{
		"request", known.id, "method", cut(r.Method), "route", route, "status", rec.status,
		"bytes", rec.bytes, "ms", took.Milliseconds(), "client", r.RemoteAddr,
	}
	if known.cause != nil {
		attrs = append(attrs, "error", known.cause)
	}
	if a.ours(route, rec.status) && !known.repeated && !hungUp(r, rec.status, took) {
		level = slog.LevelError
		if a.o.Counted != nil {
			a.o.Counted(Faults, 1)
		}
	}
	a.o.Log.Log(r.Context(), level, "request", attrs...)
}

func (a *API) traced(w *recorder, r *http.Request, pattern string) {
	ctx, end := a.o.Trace.Request(r, pattern)
	status := http.StatusInternalServerError // of a panic, which observe answers
	defer func() { end(status) }()
	a.mux.ServeHTTP(w, r.WithContext(ctx))
	status = w.status
}

// cut shortens a method for the log: net/http accepts methods of tens of kilobytes.
func cut(method string) string { return method[:min(len(method), 20)] }

// ours reports whether fedpost is the cause of a status. On a public route a stranger can cause
// a 502, by naming a broken server, and a 503, by calling too often; but not the 503 of
// /healthz.
func (a *API) ours(route string, status int) bool {
	return status == http.StatusInternalServerError || status > http.StatusInternalServerError && (!a.public[route] || route == healthRoute)
}

// patience is how long a client waits at least before it gives up on an answer.
const patience = 5 * time.Second

// hungUp reports whether a request failed because its client disconnected for its own reasons.
func hungUp(r *http.Request, status int, took time.Duration) bool {
	return errors.Is(r.Context().Err(), context.Canceled) && status > http.StatusInternalServerError && took < patience
}

// presentable reports whether a client's request id can go into headers and
// logs.
func presentable(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// recorder records the status and the size of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap gives http.ResponseController the ResponseWriter below.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

const (
	healthRoute = "GET /healthz"

	// HealthEvery is how long /healthz repeats its last result: the route is public, and
	// strangers must not cause writes at will.
	HealthEvery = 5 * time.Second
	// healthTime is how long the attempt to write may take.
	healthTime = 3 * time.Second
)

// health serves /healthz. It answers 503 if nothing can be written, so that a load balancer
// uses another process.
type health struct {
	o Options

	mu  sync.Mutex // held while trying to write, so that concurrent callers share the result
	at  time.Time
	err error
	// says is the text for err; "": nothing is wrong.
	says string
}

func (h *health) serve(r *http.Request) (any, error) {
	changed, err := h.check(r.Context())
	if known := requestOf(r.Context()); known != nil {
		known.repeated = !changed
	}
	if err != nil {
		return nil, problem.Typed(http.StatusServiceUnavailable, "not-writable", "Not writable", unwritable(err)).Because(err).After(HealthEvery)
	}
	return client.Health{Status: "ok"}, nil
}

// check goes on if its caller disconnects, as all callers share the result. changed is true
// for the first caller that sees a new result: the others must not fill the log.
func (h *health) check(asked context.Context) (changed bool, err error) {
	if h.o.Writable == nil {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.o.Now(); h.at.IsZero() || now.Before(h.at) || now.Sub(h.at) >= HealthEvery {
		ctx, cancel := context.WithTimeout(context.Background(), healthTime)
		defer cancel()
		files := h.o.Files
		if files == nil {
			files = oneFile
		}
		if h.err = files(); h.err == nil {
			h.err = h.o.Writable(ctx)
		}
		h.at = h.o.Now()
		before := h.says
		if h.says = ""; h.err != nil {
			h.says = unwritable(h.err)
		}
		if changed = h.says != before; changed && h.err == nil {
			h.o.Log.InfoContext(asked, "records can be written again")
		}
	}
	return changed, h.err
}

// oneFile opens and closes a file, which fails if too many files are open.
func oneFile() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	return f.Close()
}

// unwritable says why nothing can be written, and what to do.
func unwritable(err error) string {
	const begin = "Records cannot be written, so nothing is accepted"
	if why := remedy(err); why != "" {
		return begin + ": " + why
	}
	return begin + ". The log has the cause under the request id: a full disk, a missing permission, or a table that cannot be reached."
}

// remedy names a cause that operators can fix, and what to do; "": the cause is another.
func remedy(err error) string {
	switch {
	case errors.Is(err, table.ErrDiskFull):
		return "the disk is full. Make room; fedpost goes on by itself."
	case errors.Is(err, table.ErrReadOnly):
		return "the data folder is read-only, as after an error of its disk. Make it writable; fedpost goes on by itself. If the file system has to be unmounted for it, stop fedpost before, and start it after."
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many files are open. It goes on by itself when connections close; allow the process more (LimitNOFILE, ulimit -n) if it happens again."
	}
	return ""
}
