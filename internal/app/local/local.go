// Package local runs the whole of fedpost in one process: the API, an event
// source for each queue, and the schedule, around what the Lambda functions run.
//
// The package adds no behaviour of its own, because production would lack it. It
// starts the parts in the right order. On a stop it finishes the requests and
// deliveries under way, and all other work stays on the queues.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
)

// PerQueue is how many deliveries of each queue a process has under way at once, at most; see
// Deliveries.
// Its hundreds of invocations would otherwise open thousands of connections for
// one activity with many recipients, which is more files than most systems let a
// process have. With fewer places a tenth of new hosts that hang, 500 of 5,000 recipients,
// would take nearly all of them; each place costs some 50 KB.
const PerQueue = 768

// Messages is how many messages of each queue a process has in memory: those whose attempts are
// under way, as many that wait for a place, and as many that wait for memory, are being expanded
// or are being recorded. With fewer, deliveries to hosts that hang would keep others from being
// received.
const Messages = 3 * PerQueue

// Services are fedpost's three functions.
type Services struct {
	API         http.Handler
	Deliver     Handler
	HealthCheck func(context.Context) error
	// Ready is Mapping.Ready of all queues.
	Ready func(context.Context)
}

// Options of a server.
type Options struct {
	// Place is where to listen.
	Place Place
	// Token is the token that clients authenticate with; empty: none. A place that
	// other machines can reach needs a token.
	Token string

	Queue func(queue.Name) queue.Queue
	// Sweep, if not nil, drops expired data; it is called every minute.
	Sweep func(context.Context) error

	Services Services

	// Background, if not nil, runs until its context ends.
	Background func(context.Context)
	// Stopping, if not nil, is called at the begin of a stop, to end requests that wait.
	Stopping func()

	// Timeout of one deliver invocation.
	Timeout time.Duration
	// Every is the period of the scheduled function: a minute in production.
	Every time.Duration
	// Messages, if not 0, is how many messages of each queue are in memory at once, in
	// place of the constant: a stand-in for SQS answers few calls at once.
	Messages int
	Log      *slog.Logger
}

// Server is a running fedpost.
type Server struct {
	// URL is the address that the server listens on: http://…, https://… or unix:PATH.
	URL string

	http   *http.Server
	cancel context.CancelFunc
	done   sync.WaitGroup
	failed chan error
	under  *underway
}

// Start starts serving.
func Start(o Options) (*Server, error) {
	if err := o.Place.check(); err != nil {
		return nil, err
	}
	if o.Token == "" && !o.Place.private() {
		return nil, fmt.Errorf("%w: set FEDPOST_API_TOKEN to a secret that clients send as Bearer token, or listen on 127.0.0.1 instead of %s", ErrNotLoopback, o.Place.Listen)
	}
	listener, err := o.Place.open(o.Log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	under := newUnderway()
	o.Services.API = under.requests(o.Services.API)
	s := &Server{
		URL: listener.url, cancel: cancel, failed: make(chan error, 1), under: under,
		http: httpServer(o),
	}
	if o.Stopping != nil {
		s.http.RegisterOnShutdown(o.Stopping)
	}
	for _, name := range topology.Sources {
		q := topology.Of(name)
		m := Mapping{
			Queue: o.Queue(name), Name: name,
			BatchSize: q.BatchSize, Messages: cmp.Or(o.Messages, Messages), Timeout: o.Timeout, Handler: under.messages(o.Services.Deliver), Ready: o.Services.Ready, Log: o.Log,
		}
		s.done.Go(func() { m.Run(ctx) })
	}
	s.done.Go(func() { every(ctx, o.Every, "healthcheck", o.Log, o.Services.HealthCheck) })
	if o.Background != nil {
		s.done.Go(func() { o.Background(ctx) })
	}
	if o.Sweep != nil {
		s.done.Go(func() { every(ctx, time.Minute, "sweep", o.Log, o.Sweep) })
	}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", s.URL, err)
		}
	}()
	return s, nil
}

// Wait blocks until ctx ends or the server fails.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// ErrCutOff is the error of a Stop that ends while something is under way.
var ErrCutOff = errors.New("stopped while work was under way")

// Stop ends the server: it takes no new work and waits until what is under way is
// finished, but no longer than until ctx ends. The error then says what was cut off: a
// message that is not finished is still on its queue, and is tried again after the next
// start; a request may or may not have had its effect.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel() // queues are not polled while requests end
	err := s.http.Shutdown(ctx)
	finished := make(chan struct{})
	go func() { s.done.Wait(); close(finished) }()
	select {
	case <-finished:
		if err == nil {
			return nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	return fmt.Errorf("%w: %s: %w", ErrCutOff, s.under, err)
}

// every runs f now and then every period. An error is logged: the next run,
// like the next minute's invocation in production, tries again.
func every(ctx context.Context, period time.Duration, name string, log *slog.Logger, f func(context.Context) error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "scheduled run", "name", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// loopback reports whether address can be reached from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
