package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/engine/table"
)

// TestHealthNamesWhatTheOperatorCanMend, and recovers by itself.
func TestHealthNamesWhatTheOperatorCanMend(t *testing.T) {
	var files, write error
	w := newWorld(t, func(o *api.Options) {
		o.Files = func() error { return files }
		o.Writable = func(context.Context) error { return write }
	})
	for _, c := range []struct {
		files, write error
		says         string
	}{
		{nil, nil, `"ok"`},
		{nil, fmt.Errorf("put: %w", table.ErrDiskFull), "the disk is full. Make room"},
		{nil, nil, `"ok"`},
		{nil, fmt.Errorf("put: %w", table.ErrReadOnly), "the data folder is read-only"},
		{&os.PathError{Op: "open", Path: os.DevNull, Err: syscall.EMFILE}, nil, "too many files are open"},
		{nil, nil, `"ok"`},
		{nil, errors.New("secret host"), "The log has the cause"},
	} {
		files, write = c.files, c.write
		w.clock = w.clock.Add(api.HealthEvery)
		status := http.StatusOK
		if c.files != nil || c.write != nil {
			status = http.StatusServiceUnavailable
		}
		res := w.do("GET", "/healthz", "")
		if res.Status != status || !strings.Contains(res.Body, c.says) || strings.Contains(res.Body, "secret host") {
			t.Errorf("with %v, %v: %d %s", c.files, c.write, res.Status, res.Body)
		}
	}
}

// TestACauseThatOperatorsCanMendIsInEveryFailure, because "try again" is no advice while
// the disk is full.
func TestACauseThatOperatorsCanMendIsInEveryFailure(t *testing.T) {
	down := problem.New(http.StatusServiceUnavailable, "The records cannot be reached. Try again.")
	for _, c := range []struct {
		err  error
		says string
	}{
		{problem.New(http.StatusServiceUnavailable, down.Detail).Because(fmt.Errorf("put: %w", table.ErrDiskFull)), "Try again. The cause: the disk is full. Make room; fedpost goes on by itself."},
		{problem.New(http.StatusServiceUnavailable, down.Detail).Because(fmt.Errorf("put: %w", table.ErrReadOnly)), "If the file system has to be unmounted for it, stop fedpost before"},
		{fmt.Errorf("put: %w", table.ErrDiskFull), "The cause: the disk is full."},
		{problem.New(http.StatusServiceUnavailable, "Sorry: the disk is full. Make room; fedpost goes on by itself.").Because(table.ErrDiskFull), "Sorry: the disk is full. Make room; fedpost goes on by itself.\""},
		{problem.New(http.StatusServiceUnavailable, down.Detail).Because(errors.New("secret host")), "Try again.\""},
		{problem.New(http.StatusConflict, "Not now.").Because(table.ErrDiskFull), "Not now.\""},
	} {
		was := c.err.Error()
		res := httptest.NewRecorder()
		api.Fail(res, httptest.NewRequest("GET", "/", nil), c.err)
		if body := res.Body.String(); !strings.Contains(body, c.says) || strings.Contains(body, "secret host") {
			t.Errorf("%v: %s", c.err, body)
		}
		if c.err.Error() != was {
			t.Errorf("%s is %s now: a problem may be shared between requests", was, c.err)
		}
	}
}

// TestHealthOpensAFile of this machine unless the options say otherwise.
func TestHealthOpensAFile(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Writable = func(context.Context) error { return nil } })
	if res := w.do("GET", "/healthz", ""); res.Status != http.StatusOK {
		t.Errorf("GET /healthz is answered %d, want 200: %s", res.Status, res.Body)
	}
}

// TestHealthSaysOnceThatSomethingIsWrong: anybody may ask, as often as they like.
func TestHealthSaysOnceThatSomethingIsWrong(t *testing.T) {
	var write error
	faults := 0
	w := newWorld(t, func(o *api.Options) {
		o.Files = func() error { return nil }
		o.Writable = func(context.Context) error { return write }
		o.Counted = func(name string, n int) {
			if name == api.Faults {
				faults += n
			}
		}
	})
	for i, c := range []struct {
		write  error
		faults int
	}{
		{nil, 0}, {table.ErrDiskFull, 1}, {table.ErrDiskFull, 1}, {table.ErrReadOnly, 2}, {nil, 2}, {table.ErrReadOnly, 3},
	} {
		write = c.write
		w.clock = w.clock.Add(api.HealthEvery)
		for range 5 {
			want := http.StatusOK
			if c.write != nil {
				want = http.StatusServiceUnavailable
			}
			if res := w.do("GET", "/healthz", ""); res.Status != want {
				t.Errorf("step %d: /healthz is answered %d, want %d", i, res.Status, want)
			}
		}
		if got := strings.Count(w.log.String(), `"level":"ERROR"`); got != c.faults || faults != c.faults {
			t.Errorf("step %d: %d lines and %d faults, want %d", i, got, faults, c.faults)
		}
	}
	if !strings.Contains(w.log.String(), "written again") {
		t.Error("the end is not logged")
	}
}
