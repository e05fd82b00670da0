// Package local runs the whole of fedpost in one process: the API, an event
// source for each queue, and the schedule, around what the Lambda functions run.
//
// On a stop it finishes the requests and deliveries under way; all other work stays on the
// queues.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
)

// PerQueue is how many deliveries of each queue a process has under way at once at most, beside as
// many spare ones of all queues together; see Deliveries. Each needs a file and some 60 KB. With
// fewer, a tenth of 5,000 recipients that hang would take nearly all places.
const PerQueue = 768

// Messages is how many messages of each queue a process has in memory. Beside those whose attempts
// are under way, spare ones included, others wait for a place, are expanded or recorded. With fewer,
// deliveries to hosts that hang would keep others from being received.
const Messages = 4 * PerQueue

// Services are fedpost's three functions.
type Services struct {
	API         http.Handler
	Deliver     Handler
	HealthCheck func(context.Context) error
	// Ready is Mapping.Ready of all queues.
	Ready func(context.Context, queue.Name)
}

// Options of a server.
type Options struct {
	// Listen is where to listen.
	Listen ListenConfig
	// Token is the token that clients authenticate with; empty: none. An address that
	// other machines can reach needs a token.
	Token string

	Queue func(queue.Name) queue.Queue
	// Sweep, if not nil, drops expired data; it is called every minute.
	Sweep func(context.Context) error

	Services Services

	// Background, if not nil, runs until its context ends.
	Background func(context.Context)
	// Stopping, if not nil, is called when a stop begins, to end long polls. Finish, if not nil, is
	// called at the end of a stop, when nothing is under way any more.
	Stopping func()
	Finish   func(context.Context) error

	// Timeout of one deliver invocation.
	Timeout time.Duration
	// Every is the period of the scheduled function: a minute in production.
	Every time.Duration
	// Messages replaces the constant, if not 0: a stand-in for SQS answers few calls at once.
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
	finish func(context.Context) error
}

func Start(o Options) (*Server, error) {
	if err := o.Listen.check(); err != nil {
		return nil, err
	}
	if o.Token == "" && !o.Listen.private() {
		return nil, fmt.Errorf("%w: set FEDPOST_API_TOKEN to a secret that clients send as Bearer token, or listen on 127.0.0.1 instead of %s", ErrNotLoopback, o.Listen.Listen)
	}
	listener, err := o.Listen.open(o.Log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	under := newUnderway()
	o.Services.API = under.requests(o.Services.API)
	s := &Server{
		URL: listener.url, cancel: cancel, failed: make(chan error, 1), under: under, finish: o.Finish,
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
	s.done.Go(func() { every(ctx, o.Every, "healthcheck", o.Log, o.scheduled) })
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

var ErrCutOff = errors.New("stopped while work was under way")

// Stop takes no new work and waits until the work under way is finished, or ctx ends. The error
// then says what was cut off: unfinished messages are still on their queues and are received
// again after the next start; requests may or may not have taken effect.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel() // queues are not polled while requests end
	err := s.http.Shutdown(ctx)
	finished := make(chan struct{})
	go func() { s.done.Wait(); close(finished) }()
	select {
	case <-finished:
		if err == nil && s.finish != nil {
			return s.finish(ctx)
		}
		if err == nil {
			return nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	return fmt.Errorf("%w: %s: %w", ErrCutOff, s.under, err)
}

// scheduled is a run of the scheduled function, with its time-out: the next run waits for it, and
// probes of thousands of hosts that hang take many minutes.
func (o Options) scheduled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topology.HealthCheck.Timeout)
	defer cancel()
	return o.Services.HealthCheck(ctx)
}

// every runs f now and then every period. Errors are logged.
func every(ctx context.Context, period time.Duration, name string, log *slog.Logger, f func(context.Context) error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "a scheduled run failed", "name", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// underway counts the work under way, so that a stop can say what it cuts off.
type underway struct {
	inRequests atomic.Int64
	inMessages map[queue.Name]*atomic.Int64
}

func newUnderway() *underway {
	u := &underway{inMessages: map[queue.Name]*atomic.Int64{}}
	for _, name := range topology.Sources {
		u.inMessages[name] = new(atomic.Int64)
	}
	return u
}

func (u *underway) requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.inRequests.Add(1)
		defer u.inRequests.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// messages counts the messages that a handler works on.
func (u *underway) messages(next Handler) Handler {
	return func(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
		n := u.inMessages[from]
		n.Add(int64(len(batch)))
		defer n.Add(-int64(len(batch)))
		return next(ctx, from, batch)
	}
}

// String says what is under way.
func (u *underway) String() string {
	var parts []string
	if n := u.inRequests.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of the API's requests", n))
	}
	for _, name := range topology.Sources {
		if n := u.inMessages[name].Load(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d of the messages of the queue %s, which are received again after the next start", n, name))
		}
	}
	if len(parts) == 0 {
		return "connections, or a run of the schedule"
	}
	return strings.Join(parts, "; ")
}

// Bounds of the connections to other servers that a process keeps unused.
const (
	leastIdle = 256
	mostIdle  = 1024
)

// Idle is how many unused connections to other servers a process keeps, for its limit of open
// files (0: not known): an eighth of them, or with few files a quarter. A kept connection saves
// two thirds of a delivery's cost.
func Idle(files int) int {
	least := leastIdle
	if files > 0 {
		least = min(least, files/4)
	}
	return max(least, min(files/8, mostIdle))
}

// Deliveries is how many deliveries of each queue a process has under way at once, for its limit
// of open files: those of all queues and the spare ones use at most half of the files, so that hosts
// that hang leave files for clients.
func Deliveries(files int) int {
	if files == 0 {
		return PerQueue
	}
	return max(2, min(PerQueue, files/2/(len(topology.Sources)+1)))
}

const leastClients = 8

// clients is how many connections of clients are open at once, for a limit of open files: at
// most a quarter of them, so that idle clients leave files for other connections.
func clients(files int) int {
	if files == 0 {
		return Connections
	}
	return max(leastClients, min(Connections, files/4))
}
