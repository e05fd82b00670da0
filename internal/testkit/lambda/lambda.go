// Package lambda runs a built Lambda function, the very binary that is
// deployed, without Lambda: it starts the `bootstrap` and serves the Runtime
// API that it asks for events.
//
// A test of a handler cannot see the properties of the binary: which packages are linked,
// how long a start takes, how a bad configuration shows, how a response looks on the wire.
// This package shows them, and keeps Lambda's rules: one environment handles one event at
// a time; an environment that exits or overruns its time fails the event and ends; an
// event that finds no idle environment starts a new one.
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
//
// A new test of a built function belongs into the folder functions, whose TestMain has built
// all three:
//
//	func TestAnEmptyBatchFailsNothing(t *testing.T) {
//		fn := start(t, topology.Deliver, deployed())
//		answer, err := fn.Invoke(t.Context(), []byte(`{"Records":[]}`))
//		if err != nil || string(answer) != `{"batchItemFailures":[]}` {
//			t.Errorf("an empty batch: answered %s, error %v", answer, err)
//		}
//	}
//
// What needs a table, queues or alarms begins with newSite, a stand-in for AWS.
package lambda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Options say what to run. The environment of the process is Env and Lambda's
// own variables, nothing else, so a test cannot lean on this machine's.
type Options struct {
	Binary string
	Name   string
	Env    map[string]string
	// Timeout of one event, and Memory in MB, as the function reads them; Lambda's
	// limit of memory itself is not enforced.
	Timeout time.Duration
	Memory  int
	// Share is the share of a processor that each environment has, such as 0.29, by
	// stopping it for the rest of every tenth of a second; 0: no limit. It needs Unix.
	Share float64
	// Logs receives what the processes print; nil discards it.
	Logs io.Writer
}

// Function is a function that can be invoked, on any number of environments.
type Function struct {
	o    Options
	logs *syncWriter

	mu      sync.Mutex
	idle    []*environment
	all     []*environment
	started []Start
	closed  bool
}

// Start is the start of one environment.
type Start struct {
	// Init is the time from starting the process to its first request for an
	// event: what a cold start adds.
	Init time.Duration
}

// Error is an error that the function itself returned.
type Error struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Errors of an invocation that are not the function's answer.
var (
	// ErrTimeout: the function did not answer in time and was killed.
	ErrTimeout = errors.New("the function ran out of time")
	// ErrExited: the process ended instead of answering.
	ErrExited = errors.New("the function's process exited")
	// ErrClosed: the Function was closed.
	ErrClosed = errors.New("the function was closed")
)

// New returns a function. Nothing is started before the first Invoke.
func New(o Options) *Function {
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second // Lambda's default
	}
	if o.Memory == 0 {
		o.Memory = 128
	}
	if o.Logs == nil {
		o.Logs = io.Discard
	}
	return &Function{o: o, logs: &syncWriter{w: o.Logs}}
}

// Invoke hands one event to an idle environment, or a new one, and returns the
// function's answer. An *Error is the function's own; any other error means
// that the environment is gone.
func (f *Function) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	e, err := f.take(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := e.invoke(ctx, event)
	if own, ok := errors.AsType[*Error](err); err == nil || ok {
		f.release(e)
		if ok {
			return nil, own
		}
		return answer, nil
	}
	return nil, errors.Join(err, e.stop())
}

// Starts returns the starts so far, the oldest first.
func (f *Function) Starts() []Start {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Start(nil), f.started...)
}

// PeakMemory returns the most memory, in bytes, that any environment which is
// still running has had resident. It needs Linux's /proc.
func (f *Function) PeakMemory() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var most int64
	for _, e := range f.all {
		if e.exited() {
			continue
		}
		m, err := peakMemory(e.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		most = max(most, m)
	}
	return most, nil
}

// CPU returns the processor time, user and system, that the environments which are still
// running have used. It needs Linux's /proc.
func (f *Function) CPU() (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum time.Duration
	for _, e := range f.all {
		if e.exited() {
			continue
		}
		used, err := processorTime(e.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// Close stops all environments.
func (f *Function) Close() error {
	f.mu.Lock()
	f.closed = true
	all := f.all
	f.all, f.idle = nil, nil
	f.mu.Unlock()
	var errs []error
	for _, e := range all {
		errs = append(errs, e.stop())
	}
	return errors.Join(errs...)
}

// take returns an idle environment, or starts one.
func (f *Function) take(ctx context.Context) (*environment, error) {
	f.mu.Lock()
	for len(f.idle) > 0 && !f.closed {
		last := len(f.idle) - 1
		e := f.idle[last]
		f.idle = f.idle[:last]
		if !e.exited() {
			f.mu.Unlock()
			return e, nil
		}
	}
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}

	e, err := start(ctx, f.o, f.logs)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", f.o.Binary, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.Join(ErrClosed, e.stop())
	}
	f.all = append(f.all, e)
	f.started = append(f.started, Start{Init: e.init})
	return e, nil
}

func (f *Function) release(e *environment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.idle = append(f.idle, e)
	}
}

// syncWriter lets several processes print to one writer.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
