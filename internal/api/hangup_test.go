package api_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"fedpost/internal/api/problem"
)

// TestAClientThatHangsUpIsNoFaultOfOurs: otherwise anyone who may read could fill the log with
// errors and set off the operator's alarm by disconnecting.
func TestAClientThatHangsUpIsNoFaultOfOurs(t *testing.T) {
	var w *world
	var hangUp context.CancelFunc
	var took time.Duration
	w = newWorld(t, extra("GET /v1/read", false, func(_ http.ResponseWriter, r *http.Request) error {
		hangUp()
		w.clock = w.clock.Add(took)
		cause := fmt.Errorf("read: %w", cmp.Or(r.Context().Err(), io.ErrUnexpectedEOF))
		return problem.New(http.StatusServiceUnavailable, "later").Because(cause)
	}), extra("GET /v1/panic", false, func(http.ResponseWriter, *http.Request) error {
		hangUp()
		panic("bug")
	}))
	for _, tt := range []struct {
		name, path string
		took       time.Duration
		leaves     bool
		want       string
	}{
		{"the client hangs up", "/v1/read", time.Second, true, "INFO"},
		{"the client has waited for long", "/v1/read", time.Minute, true, "ERROR"},
		{"the client is there", "/v1/read", time.Second, false, "ERROR"},
		{"a bug, and the client hangs up", "/v1/panic", 0, true, "ERROR"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		hangUp, took = func() {}, tt.took
		if tt.leaves {
			hangUp = cancel
		}
		w.api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", tt.path, nil))
		cancel()
		if line := w.logged(); line["level"] != tt.want || line["msg"] != "request" {
			t.Errorf("%s: %v, want %s", tt.name, line, tt.want)
		}
	}
}
