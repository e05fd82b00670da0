// Package lambda builds fedpost's functions on AWS from the environment's settings and AWS
// clients.
//
// The Lambda functions import only this package, and it does not import the embedded engine, so
// that no Lambda binary links SQLite. A test checks that.
package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/app/lambda/apigateway"
	"fedpost/internal/app/lambda/metrics"
	"fedpost/internal/app/lambda/sqsevent"
	"fedpost/internal/app/topology"
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
	f, err := open(config.AWS{Queues: c.Queues, Table: c.Table, Sealing: c.Sealing}, c.Queueing, c.Metrics, c.Tracing, from(c.Log.Level, log))
	if err != nil {
		return nil, err
	}
	f.Metrics = faults{f.meter}
	h, err := app.API(c, config.Access{}, f.Ports)
	if err != nil {
		return nil, err
	}
	serve := apigateway.New(h)
	return logged(f.Log, func(ctx context.Context, event json.RawMessage) (any, error) {
		defer f.end(ctx)
		return serve(ctx, event)
	}), nil
}

// Deliver is functions/deliver.
func Deliver(log *slog.Logger) (func(context.Context, events.SQSEvent) (events.SQSEventResponse, error), error) {
	var c config.Deliver
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	f, err := open(config.AWS{Queues: c.Queues, Table: c.Table, Sealing: c.Sealing}, c.Queueing, c.Metrics, c.Tracing, from(c.Log.Level, log))
	if err != nil {
		return nil, err
	}
	sources, err := Sources(f.cfg.Region, c.Queues.URLs())
	if err != nil {
		return nil, err
	}
	// The tally is kept when the engine is replaced.
	f.Metrics, f.Tally = f.meter, f.NewTally()
	worker, err := worker(c, f.Ports, f.cfg)
	if err != nil {
		return nil, err
	}
	return logged(f.Log, func(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		defer f.end(ctx)
		return sqsevent.Handler{Worker: worker(ctx), Sources: sources}.Handle(ctx, e)
	}), nil
}

// worker returns a function that returns an invocation's engine: always the same or, if our
// identity is in a secret, one that is built from the secret's latest version.
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
	f, err := open(config.AWS{Queues: c.Queues, Table: c.Table}, c.Queueing, c.Metrics, config.Tracing{}, from(c.Log.Level, log))
	if err != nil {
		return nil, err
	}
	if c.EventBus.Name != "" {
		client, err := awssdk.EventBridge(f.cfg, os.Getenv)
		if err != nil {
			return nil, err
		}
		f.Bus, f.BusName = eventbridge.Bus{Client: client, Name: c.EventBus.Name}, c.EventBus.Name
	}
	f.Metrics = f.meter
	runner, err := app.HealthCheck(c, f.Ports)
	if err != nil {
		return nil, err
	}
	return logged(f.Log, func(ctx context.Context, _ events.EventBridgeEvent) (any, error) {
		defer f.end(ctx)
		return nil, runner.Run(ctx)
	}), nil
}

// function is what a Lambda function runs on.
type function struct {
	app.Ports
	cfg    aws.Config
	meter  *metrics.Meter
	traces *tracing.Exporter // nil: none
}

func open(c config.AWS, kind config.Queueing, m config.Metrics, t config.Tracing, log *slog.Logger) (f function, err error) {
	if f.cfg, err = awssdk.Config(os.Getenv); err != nil {
		return f, err
	}
	if f.Ports, err = Local(c, kind, f.cfg, log); err != nil {
		return f, err
	}
	if f.traces, err = tracing.Open(t, config.TracingHeaders{}, frozen, log); err != nil {
		return f, err
	}
	f.meter, f.Trace = metrics.New(m.Namespace, os.Stdout, time.Now), f.traces.Tracer()
	return f, nil
}

// sendTime is how long an invocation waits at its end for the collector of traces.
const sendTime = 500 * time.Millisecond

// frozen describes a Lambda function to the exporter of traces.
var frozen = tracing.Process{System: tracing.SQS, Frozen: true}

// end sends the spans of an invocation, after which the process may be frozen, and prints its
// counts. Failures are only logged: they are no reason to repeat the invocation.
func (f function) end(ctx context.Context) {
	if err := f.meter.Flush(ctx); err != nil {
		f.Log.ErrorContext(ctx, "counts of this invocation are lost", "error", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := f.traces.Flush(ctx); err != nil {
		f.Log.WarnContext(ctx, "the spans of this invocation are not sent yet", "error", err)
	}
}

// Local is the engine of a process on AWS's services, or on a stand-in at AWS_ENDPOINT_URL.
func Local(c config.AWS, kind config.Queueing, cfg aws.Config, log *slog.Logger) (app.Ports, error) {
	p, err := Records(c.Table, c.Sealing, cfg, log)
	if err != nil {
		return app.Ports{}, err
	}
	messages, err := awssdk.SQS(cfg, os.Getenv)
	if err != nil {
		return app.Ports{}, err
	}
	queues := map[queue.Name]queue.Queue{}
	for name, url := range c.Queues.URLs() {
		queues[name] = sqs.New(messages, url, name, kind.Kind())
	}
	p.Queue, p.Now = func(n queue.Name) queue.Queue { return queues[n] }, app.Wall
	return p, nil
}

// Records is the part of the engine that keeps records, with their sealer if a key of KMS is set.
func Records(t config.Table, s config.Sealing, cfg aws.Config, log *slog.Logger) (app.Ports, error) {
	client, err := awssdk.DynamoDB(cfg, os.Getenv)
	if err != nil {
		return app.Ports{}, err
	}
	p := app.Ports{Table: dynamodb.New(client, t.Name), Log: log}
	if s.KMSKey == "" {
		return p, nil
	}
	seals, err := awssdk.KMS(cfg, os.Getenv)
	if err != nil {
		return app.Ports{}, fmt.Errorf("sealing key: %w", err)
	}
	p.Sealer = kms.New(seals.Encrypt, seals.Decrypt, s.KMSKey)
	return p, nil
}

// Sources maps ARNs, by which events name their queues, to the names of the queues that the
// deliver function reads. It derives the ARNs from the queues' URLs.
func Sources(region string, urls map[queue.Name]string) (map[string]queue.Name, error) {
	sources := map[string]queue.Name{}
	for _, name := range topology.Sources {
		arn, err := queueARN(region, urls[name])
		if err != nil {
			return nil, fmt.Errorf("%s queue: %w", name, err)
		}
		sources[arn] = name
	}
	return sources, nil
}

// queueARN returns the ARN of the queue at a URL, which ends in the account and the name.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html
func queueARN(region, rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 2 {
		return "", fmt.Errorf("%s is not the URL of a queue: it must end in /account/name", rawURL)
	}
	account, name := parts[len(parts)-2], parts[len(parts)-1]
	return "arn:" + partition(region) + ":sqs:" + region + ":" + account + ":" + name, nil
}

// partition returns the AWS partition of a region.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	case strings.HasPrefix(region, "eusc-"):
		return "aws-eusc"
	}
	return "aws"
}
