package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"fedpost/internal/api/contract"
)

const (
	healthRoute = "GET /healthz"

	// HealthEvery is for how long an answer of /healthz holds. The route is public:
	// strangers must not be able to make us write as often as they like.
	HealthEvery = 5 * time.Second
	// healthTime is how long the attempt to write may take. Load balancers wait for
	// some seconds.
	healthTime = 3 * time.Second
)

// health serves /healthz: a process that cannot write accepts nothing, so a load
// balancer should ask another one, and an operator should look.
type health struct {
	o Options

	mu  sync.Mutex // held while trying to write: callers at once share the result
	at  time.Time
	err error
}

func (h *health) serve(w http.ResponseWriter, r *http.Request) error {
	if err := h.check(); err != nil {
		return contract.TypedProblem(http.StatusServiceUnavailable, "not-writable", "Not writable",
			"Records cannot be written, so nothing is accepted. The log has the cause under the request id: a full disk, a missing permission, or a table that cannot be reached.").
			Because(err).After(HealthEvery)
	}
	return answer(w, r, http.StatusOK, contract.Health{Status: "ok"})
}

// check does not depend on the caller, who may hang up: the result is everybody's.
func (h *health) check() error {
	if h.o.Writable == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.o.Now(); h.at.IsZero() || now.Before(h.at) || now.Sub(h.at) >= HealthEvery {
		ctx, cancel := context.WithTimeout(context.Background(), healthTime)
		defer cancel()
		h.err = h.o.Writable(ctx)
		h.at = h.o.Now()
	}
	return h.err
}
