package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"fedpost/internal/api/page"
	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/app/lambda"
	"fedpost/internal/app/local"
	"fedpost/internal/app/local/metrics"
	"fedpost/internal/app/topology"
	"fedpost/internal/app/tracing"
	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/keys/openssl"
	"fedpost/internal/ledger/events"
)

// fedpost is a running server and what has to be closed after it.
type fedpost struct {
	server *local.Server
	engine string // what it runs on, for people
	signer string // what signs with RSA, for people
	close  func() error
}

// start runs everything in one process: on AWS if any of its settings is set, on PostgreSQL if a
// database is named, else on the embedded engine in dir. change adapts the settings of the environment.
func start(ctx context.Context, dir string, at local.ListenConfig, allowPrivate bool, change func(*settings), log *slog.Logger) (*fedpost, error) {
	var s settings
	if err := config.Load(&s.Local); err != nil {
		return nil, err
	}
	s.every = topology.HealthCheckEvery
	if change != nil {
		change(&s)
	}
	process := tracing.Process{System: tracing.Embedded, Attributes: []attribute.KeyValue{semconv.ServiceVersion(release())}}
	// The demo does not touch a real account.
	demo := change != nil && os.Getenv(endpointURL) == ""
	because := awsSettings()
	if demo {
		because, s.Database.URL = nil, ""
	}
	if len(because) > 0 {
		process.System = tracing.SQS
	}
	err := oneEngine(s.Database, because)
	if err != nil {
		return nil, err
	}
	if s.traces, err = tracing.Open(s.Tracing, s.TracingHeaders, process, log); err != nil {
		return nil, err
	}
	var f *fedpost
	var signer string
	s.faster, signer = faster(s.Signing, log)
	switch {
	case s.Database.URL != "":
		f, err = s.onPostgres(ctx, dir, at, allowPrivate, log)
	case len(because) == 0:
		f, err = s.embedded(ctx, dir, at, allowPrivate, log)
	default:
		if f, err = s.onAWS(ctx, at, allowPrivate, log); err == nil {
			break
		}
		err = fmt.Errorf("cannot run on AWS, as asked for by %s (unset, fedpost runs on a file): %w", strings.Join(because, ", "), err)
	}
	if err != nil {
		return nil, errors.Join(err, s.traces.Close(ctx))
	}
	f.close, f.signer = sent(s.traces, f.close, log), signer
	return f, nil
}

// sendTime is how long sending the last spans may take at a stop.
const sendTime = 3 * time.Second

// sent returns a function that calls closing and then sends the last spans. Lost spans are no error.
func sent(traces *tracing.Exporter, closing func() error, log *slog.Logger) func() error {
	return func() error {
		err := closing()
		ctx, cancel := context.WithTimeout(context.Background(), sendTime)
		defer cancel()
		if lost := traces.Close(ctx); lost != nil {
			log.Warn("the last spans are lost", "error", lost)
		}
		return err
	}
}

// awsSettings are the variables that are set and mean AWS. One is enough: with an incomplete
// configuration fedpost must not start on an empty file.
func awsSettings() []string {
	var set []string
	for _, name := range append([]string{endpointURL}, config.Names(&config.AWS{})...) {
		if os.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	return set
}

// oneEngine returns an error if settings ask for PostgreSQL and for AWS.
func oneEngine(d config.Database, aws []string) error {
	if d.URL == "" || len(aws) == 0 {
		return nil
	}
	return fmt.Errorf("%s asks for PostgreSQL, and %s for AWS: unset one or the other", config.DatabaseURL, strings.Join(aws, ", "))
}

const endpointURL = "AWS_ENDPOINT_URL"

func (s settings) onAWS(ctx context.Context, at local.ListenConfig, allowPrivate bool, log *slog.Logger) (*fedpost, error) {
	var c config.AWS
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	cfg, err := awsConfig(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := hasCredentials(ctx, cfg); err != nil {
		return nil, err
	}
	ports, err := lambda.Local(c, s.Queueing, cfg, log)
	if err != nil {
		return nil, err
	}
	ports.AllowPrivate, ports.Tally = allowPrivate, ports.NewTally()
	server, err := s.serve(ports, at, ports.Tally.Settle)
	if err != nil {
		return nil, err
	}
	engine := fmt.Sprintf("AWS, table %s in %s", c.Table.Name, cfg.Region)
	if at := os.Getenv(endpointURL); at != "" {
		engine += ", at " + at
	}
	return &fedpost{server: server, engine: engine, close: settled(ports, func() error { return nil })}, nil
}

func (s settings) embedded(ctx context.Context, dir string, at local.ListenConfig, allowPrivate bool, log *slog.Logger) (*fedpost, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := local.CheckRestored(dir); err != nil {
		return nil, err
	}
	clock := local.NewClock(log)
	engine, err := sqlite.Open(ctx, filepath.Join(dir, local.Database), sqlite.Options{Now: clock.Now, Queues: queues(), Type: s.Queueing.Kind(), Log: log})
	if err != nil {
		return nil, err
	}
	ports := app.Ports{
		Table: engine.Table(), Queue: engine.Queue, AllowPrivate: allowPrivate,
		Alone: rand.Text()[:8], Now: clock.Now, Date: app.Wall, Log: log,
	}
	if err := ports.SealIn(ctx, keys.SealingKey{File: sealingKey(dir)}); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	if err := errors.Join(engine.Recall(ctx), ports.Index(ctx, engine.Partitions)); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	if err := local.AfterRestore(dir, func() error { return ports.BeginEvents(ctx) }); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	ports.Tally = ports.NewTally()
	sweep := func(ctx context.Context) error { return errors.Join(engine.Sweep(ctx), ports.Tally.Settle(ctx)) }
	server, err := s.serve(ports, at, sweep)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &fedpost{server: server, engine: "SQLite, " + filepath.Join(dir, local.Database), close: settled(ports, engine.Close)}, nil
}

// onPostgres runs on a database that other processes may run on, too. dir has the sealing key
// only, which is the same for all of them, and not even that if the settings have it.
func (s settings) onPostgres(ctx context.Context, dir string, at local.ListenConfig, allowPrivate bool, log *slog.Logger) (*fedpost, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	engine, err := postgres.Open(ctx, s.Database.URL, postgres.Options{Schema: s.Database.Schema, Queues: sharedQueues(), Type: s.Queueing.Kind(), OutboxRetention: s.Database.OutboxRetention, Clock: local.NewClock(log).Now, Log: log})
	if err != nil {
		return nil, err
	}
	ports := app.Ports{Table: engine.Table(), Queue: engine.Queue, Rows: engine.Outbox(), AllowPrivate: allowPrivate, Log: log}
	if err := ports.SealIn(ctx, keys.SealingKey{File: sealingKey(dir), Given: s.Database.Sealing()}); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	ports.Tally = ports.NewTally()
	s.rows, s.oldest = engine.Outbox().Run, engine.OldestTransaction
	schedule := engine.Duty(ctx, "schedule")
	s.alone = schedule.Do
	sweep := func(ctx context.Context) error {
		_, unknown := engine.FollowClock(ctx)
		return errors.Join(unknown, engine.WatchHorizon(ctx), schedule.Do(ctx, engine.Sweep), ports.Tally.Settle(ctx))
	}
	closing := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		return errors.Join(schedule.Resign(ctx), engine.Close())
	}
	server, err := s.serve(ports, at, sweep)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return &fedpost{server: server, engine: "PostgreSQL, " + engine.Name(), close: settled(ports, closing)}, nil
}

// sealingKey is the file of the sealing key: systemd's credential, if there is one, else
// in the data folder.
func sealingKey(dir string) string {
	if file, ok := config.Credential(local.SealingKey); ok {
		return file
	}
	return filepath.Join(dir, local.SealingKey)
}

// settleTime is how long writing the last counts may take at a stop.
const settleTime = 5 * time.Second

// settled returns a function that writes the counts of the process and then calls
// closing.
func settled(p app.Ports, closing func() error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		return errors.Join(p.Tally.Settle(ctx), closing())
	}
}

// settings are the settings of the environment, and the period of the scheduled
// function, which the demo shortens.
type settings struct {
	config.Local
	every  time.Duration
	traces *tracing.Exporter
	faster func(crypto.Signer) crypto.Signer // as keys.Options.Faster
	// alone runs scheduled work unless another process does it; nil: there is no other.
	alone func(ctx context.Context, work func(context.Context) error) error
	// oldest is the age of the database's oldest transaction; nil: it has none.
	oldest func() time.Duration
	// rows accepts rows of the outbox until its context ends; nil: there is none.
	rows func(ctx context.Context, accept outbox.Accept)
}

func (s settings) serve(ports app.Ports, at local.ListenConfig, sweep func(context.Context) error) (*local.Server, error) {
	ports.Idle = local.Idle(local.Files())
	ports.Faster = s.faster
	ports.PerQueue, ports.Keys = local.Deliveries(local.Files()), ports.NewRing()
	ports.Tally.Remember()
	ports.Notifier = new(events.Notifier)
	meter := metrics.New(ports.Tally)
	meter.Events(ports.Notifier.Counts)
	if s.oldest != nil {
		meter.OldestTransaction(s.oldest)
	}
	ports.Metrics, ports.Trace = meter, s.traces.Tracer()
	if s.traces != nil {
		meter.Traces(s.traces.Counts)
	}
	api, err := app.API(s.Enqueue(), s.Access, ports)
	if err != nil {
		return nil, err
	}
	rows := func(context.Context) {}
	if s.rows != nil {
		accept, err := app.Outbox(s.Enqueue(), ports)
		if err != nil {
			return nil, err
		}
		rows = func(ctx context.Context) { s.rows(ctx, accept) }
	}
	deliver, err := app.Deliver(s.Deliver(), ports)
	if err != nil {
		return nil, err
	}
	health, err := app.HealthCheck(s.HealthCheck(), ports)
	if err != nil {
		return nil, err
	}
	scheduled := health.Run
	if s.alone != nil {
		scheduled = func(ctx context.Context) error { return s.alone(ctx, health.Run) }
	}
	pump, err := app.Pump(s.HealthCheck(), ports)
	if err != nil {
		return nil, err
	}
	front := page.New(page.Options{Enter: page.ByToken(api, s.Access.Token != ""), Now: time.Now, Log: ports.Log})
	stopping := func() {
		ports.Notifier.Stop()
		deliver.Stop()
	}
	return local.Start(local.Options{
		Listen: at, Token: s.Access.Token, Queue: ports.Queue, Sweep: sweep, Stopping: stopping, Finish: deliver.Finish,
		Background: func(ctx context.Context) {
			var both sync.WaitGroup
			both.Go(func() { rows(ctx) })
			events.OnNotify(ctx, ports.Notifier, ports.Log, pump)
			both.Wait()
		},
		Services: local.Services{API: dispatch(api, meter.Handler(api, ports.Log), front), Deliver: deliver.Handle, Ready: deliver.Ready, HealthCheck: scheduled},
		Timeout:  topology.Deliver.Timeout, Every: s.every, Log: ports.Log,
	})
}

// stop ends the server within a time and closes what is below it.
func (f *fedpost) stop(cause error, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return errors.Join(cause, f.server.Stop(ctx), f.close())
}

// forever is how long a message that somebody waits for is kept: until its recipients are final. A
// process that was off for weeks, or whose clock was wrong, still has it.
const forever = 100 * 365 * 24 * time.Hour

// queues gives the embedded engine's queues the settings they have on AWS, but for the retention of
// messages that are no dead letters.
func queues() map[queue.Name]queue.Config {
	m := make(map[queue.Name]queue.Config, len(queue.Names))
	for _, n := range queue.Names {
		t := topology.Of(n)
		m[n] = queue.Config{Visibility: t.Visibility, MaxReceives: t.MaxReceives, Retention: t.Retention}
	}
	for _, n := range topology.Sources {
		c := m[n]
		c.Retention = forever
		m[n] = c
	}
	return m
}

// sharedQueues is queues for an engine that several processes share. A message of a process that has
// died is received again after its visibility timeout, which only has to be longer than an invocation.
// On AWS it is far longer, as Lambda may delay a batch.
func sharedQueues() map[queue.Name]queue.Config {
	m := queues()
	for _, n := range topology.Sources {
		c := m[n]
		c.Visibility = topology.Deliver.Timeout + 30*time.Second
		m[n] = c
	}
	return m
}

// dispatch sends requests to the page, the metrics or the API. http.ServeMux would redirect paths
// that are not canonical, which the API answers itself.
func dispatch(api, metrics http.Handler, p *page.Page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			metrics.ServeHTTP(w, r)
		case p.Serves(r):
			p.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// faster returns what makes RSA keys sign by OpenSSL, nil if they sign by Go, and says by which
// for people.
func faster(s config.Signing, log *slog.Logger) (sign func(crypto.Signer) crypto.Signer, by string) {
	if s.Library != "auto" {
		return nil, "Go, as SIGNING_LIBRARY says"
	}
	library, err := openssl.Open()
	if err != nil {
		return nil, fmt.Sprintf("Go (%v)", err)
	}
	return func(k crypto.Signer) crypto.Signer {
		plain, ok := k.(*rsa.PrivateKey)
		if !ok {
			return k
		}
		fast, err := library.Signer(plain)
		if err != nil {
			log.Warn("OpenSSL does not take a signing key; Go signs with it", "because", err)
			return k
		}
		return fast
	}, "OpenSSL " + library.Version()
}
