// Package lambda builds fedpost's functions on AWS: it reads settings from the
// Lambda function's environment, makes the AWS clients and passes both to package
// app.
//
// The Lambda functions import only this package, and this package imports nothing
// of the embedded engine, so that no Lambda binary links SQLite. A test checks
// the binaries' dependencies.
package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/app/lambda/apigateway"
	"fedpost/internal/app/lambda/metrics"
	"fedpost/internal/app/lambda/sqsevent"
	"fedpost/internal/app/tracing"
	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/eventbridge"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqs"
	"fedpost/internal/keys/kms"
)

// Enqueue is functions/enqueue. IAM has authenticated the caller.
func Enqueue(log *slog.Logger) (apigateway.Handler, error) {
	var c config.Enqueue
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	log = from(c.Log.Level, log)
	p, cfg, err := ports(c.Queueing, c.Queues, c.Table, log)
	if err != nil {
		return nil, err
	}
	if p.Sealer, err = sealer(cfg, c.Sealing); err != nil {
		return nil, err
	}
	meter := metrics.New(c.Metrics.Namespace, os.Stdout, time.Now)
	p.Metrics = faults{meter}
	traces, err := tracing.Open(c.Tracing, config.TracingHeaders{}, frozen, log)
	if err != nil {
		return nil, err
	}
	p.Trace = traces.Tracer()
	h, err := app.API(c, config.Access{}, p)
	if err != nil {
		return nil, err
	}
	serve := apigateway.New(h)
	return logged(log, func(ctx context.Context, event json.RawMessage) (any, error) {
		defer flush(ctx, meter, log)
		defer send(ctx, traces, log)
		return serve(ctx, event)
	}), nil
}

// Deliver is functions/deliver.
func Deliver(log *slog.Logger) (func(context.Context, events.SQSEvent) (events.SQSEventResponse, error), error) {
	var c config.Deliver
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	log = from(c.Log.Level, log)
	p, cfg, err := ports(c.Queueing, c.Queues, c.Table, log)
	if err != nil {
		return nil, err
	}
	if p.Sealer, err = sealer(cfg, c.Sealing); err != nil {
		return nil, err
	}
	sources, err := Sources(cfg.Region, c.Queues.URLs())
	if err != nil {
		return nil, err
	}
	meter := metrics.New(c.Metrics.Namespace, os.Stdout, time.Now)
	// The counters are kept when the engine is replaced.
	p.Metrics, p.Tally = meter, p.NewTally()
	traces, err := tracing.Open(c.Tracing, config.TracingHeaders{}, frozen, log)
	if err != nil {
		return nil, err
	}
	p.Trace = traces.Tracer()
	worker, err := worker(c, p, cfg)
	if err != nil {
		return nil, err
	}
	return logged(log, func(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		defer flush(ctx, meter, log)
		defer send(ctx, traces, log)
		return sqsevent.Handler{Worker: worker(ctx), Sources: sources}.Handle(ctx, e)
	}), nil
}

// worker returns a function that gives each invocation its engine: always the
// same engine or, if our identity is in a secret, the engine built from the
// secret's latest version.
func worker(c config.Deliver, p app.Ports, cfg aws.Config) (func(context.Context) sqsevent.Worker, error) {
	if c.SipherSecret.ARN == "" {
		engine, err := app.Deliver(c, p)
		return func(context.Context) sqsevent.Worker { return engine }, err
	}
	client, err := awssdk.Secrets(cfg, os.Getenv)
	if err != nil {
		return nil, err
	}
	r := &rotating{
		read: func(ctx context.Context) (map[string]string, string, error) {
			return awssdk.ReadSecret(ctx, client, c.SipherSecret.ARN)
		},
		build: func(secret map[string]string) (sqsevent.Worker, error) {
			var c config.Deliver
			if err := config.LoadWithSecret(&c, secret); err != nil {
				return nil, err
			}
			return app.Deliver(c, p)
		},
		log: p.Log, now: p.Now,
	}
	return r.current, r.start()
}

// HealthCheck is functions/healthcheck.
func HealthCheck(log *slog.Logger) (func(context.Context, events.EventBridgeEvent) (any, error), error) {
	var c config.HealthCheck
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	log = from(c.Log.Level, log)
	p, cfg, err := ports(c.Queueing, c.Queues, c.Table, log)
	if err != nil {
		return nil, err
	}
	if c.EventBus.Name != "" {
		client, err := awssdk.EventBridge(cfg, os.Getenv)
		if err != nil {
			return nil, err
		}
		p.Bus, p.BusName = bus{eventbridge.Bus{Client: client, Name: c.EventBus.Name}}, c.EventBus.Name
	}
	meter := metrics.New(c.Metrics.Namespace, os.Stdout, time.Now)
	p.Metrics = meter
	runner, err := app.HealthCheck(c, p)
	if err != nil {
		return nil, err
	}
	return logged(log, func(ctx context.Context, _ events.EventBridgeEvent) (any, error) {
		defer flush(ctx, meter, log)
		return nil, runner.Run(ctx)
	}), nil
}

// ports returns SQS and DynamoDB as app.Ports, and the AWS configuration of their
// clients.
func ports(kind config.Queueing, q config.Queues, t config.Table, log *slog.Logger) (app.Ports, aws.Config, error) {
	cfg, err := awssdk.Config(os.Getenv)
	if err != nil {
		return app.Ports{}, aws.Config{}, err
	}
	p, err := portsOf(cfg, kind, q, t, log)
	return p, cfg, err
}

func portsOf(cfg aws.Config, kind config.Queueing, q config.Queues, t config.Table, log *slog.Logger) (app.Ports, error) {
	messages, err := awssdk.SQS(cfg, os.Getenv)
	if err != nil {
		return app.Ports{}, err
	}
	records, err := awssdk.DynamoDB(cfg, os.Getenv)
	if err != nil {
		return app.Ports{}, err
	}
	queues := map[queue.Name]queue.Queue{}
	for name, url := range q.URLs() {
		queues[name] = sqs.New(messages, url, name, kind.Kind())
	}
	return app.Ports{
		Table: dynamodb.New(records, t.Name),
		Queue: func(n queue.Name) queue.Queue { return queues[n] },
		Log:   log, Now: app.Wall,
	}, nil
}

// sealer seals signing keys with KMS.
func sealer(cfg aws.Config, s config.Sealing) (*kms.Sealer, error) {
	client, err := awssdk.KMS(cfg, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return kms.New(client.Encrypt, client.Decrypt, s.KMSKey), nil
}

// flush prints the counts of an invocation. A failure is only logged, because it
// is no reason to repeat the invocation.
func flush(ctx context.Context, m *metrics.Meter, log *slog.Logger) {
	if err := m.Flush(ctx); err != nil {
		log.ErrorContext(ctx, "counts of this invocation are lost", "error", err)
	}
}

// sendTime is how long an invocation waits at its end for the collector, an extension that
// answers within milliseconds.
const sendTime = 500 * time.Millisecond

// frozen is a function as the exporter of traces sees it.
var frozen = tracing.Process{System: tracing.SQS, Frozen: true}

// send sends the spans of an invocation, after which the process may be frozen.
func send(ctx context.Context, traces *tracing.Exporter, log *slog.Logger) {
	if traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := traces.Flush(ctx); err != nil {
		log.WarnContext(ctx, "the spans of this invocation are not sent yet", "error", err)
	}
}

// bus is EventBridge as package app asks for it.
type bus struct{ eventbridge.Bus }

// Put implements app.Bus.
func (b bus) Put(ctx context.Context, all []app.BusEvent) error {
	entries := make([]eventbridge.Entry, len(all))
	for i, e := range all {
		entries[i] = eventbridge.Entry(e)
	}
	return b.Bus.Put(ctx, entries)
}
