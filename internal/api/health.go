package api

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"fedpost/client"
	"fedpost/internal/api/problem"
	"fedpost/internal/engine/table"
)

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
