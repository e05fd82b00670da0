// Package awsstack puts fedpost's functions together on AWS: settings and
// clients from a Lambda function's environment, around the assembly that all
// engines share.
//
// It is the only thing the Lambda functions import, and it imports nothing of
// the embedded engine, so that no SQLite is linked into them; a test of the
// binaries' dependencies holds it to that.
package awsstack

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"

	"fedpost/internal/apigateway"
	"fedpost/internal/awsclients"
	"fedpost/internal/awskms"
	"fedpost/internal/awsqueue"
	"fedpost/internal/awstable"
	"fedpost/internal/config"
	"fedpost/internal/metrics"
	"fedpost/internal/queue"
	"fedpost/internal/sqsevent"
	"fedpost/internal/stack"
)

// Enqueue is functions/enqueue. IAM has authenticated who calls it.
func Enqueue(log *slog.Logger) (apigateway.Handler, error) {
	var c config.Enqueue
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	p, _, err := ports(c.Queues, c.Table, log)
	if err != nil {
		return nil, err
	}
	if p.Sealer, err = sealer(c.Sealing); err != nil {
		return nil, err
	}
	h, err := stack.API(c, "", p)
	if err != nil {
		return nil, err
	}
	return apigateway.New(h), nil
}

// Deliver is functions/deliver.
func Deliver(log *slog.Logger) (func(context.Context, events.SQSEvent) (events.SQSEventResponse, error), error) {
	var c config.Deliver
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	p, cfg, err := ports(c.Queues, c.Table, log)
	if err != nil {
		return nil, err
	}
	if p.Sealer, err = sealer(c.Sealing); err != nil {
		return nil, err
	}
	sources, err := Sources(cfg.Region, c.Queues.URLs())
	if err != nil {
		return nil, err
	}
	meter := metrics.New(c.Metrics.Namespace, os.Stdout, time.Now)
	p.Meter = meter
	engine, err := stack.Deliver(c, p)
	if err != nil {
		return nil, err
	}
	h := sqsevent.Handler{Worker: engine, Sources: sources}
	return func(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		defer flush(ctx, meter, log)
		return h.Handle(ctx, e)
	}, nil
}

// HealthCheck is functions/healthcheck.
func HealthCheck(log *slog.Logger) (func(context.Context, events.EventBridgeEvent) error, error) {
	var c config.HealthCheck
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	p, _, err := ports(c.Queues, c.Table, log)
	if err != nil {
		return nil, err
	}
	meter := metrics.New(c.Metrics.Namespace, os.Stdout, time.Now)
	p.Meter = meter
	runner, err := stack.HealthCheck(c, p)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ events.EventBridgeEvent) error {
		defer flush(ctx, meter, log)
		return runner.Run(ctx)
	}, nil
}

// ports are SQS and DynamoDB, and the configuration they were made with.
func ports(q config.Queues, t config.Table, log *slog.Logger) (stack.Ports, aws.Config, error) {
	fail := func(err error) (stack.Ports, aws.Config, error) { return stack.Ports{}, aws.Config{}, err }
	cfg, err := awsclients.Config(os.Getenv)
	if err != nil {
		return fail(err)
	}
	messages, err := awsclients.SQS(cfg, os.Getenv)
	if err != nil {
		return fail(err)
	}
	records, err := awsclients.DynamoDB(cfg, os.Getenv)
	if err != nil {
		return fail(err)
	}
	queues := map[queue.Name]queue.Queue{}
	for name, url := range q.URLs() {
		queues[name] = awsqueue.New(messages, url, name)
	}
	return stack.Ports{
		Table: awstable.New(records, t.Name),
		Queue: func(n queue.Name) queue.Queue { return queues[n] },
		Log:   log, Now: time.Now,
	}, cfg, nil
}

// sealer is KMS.
func sealer(s config.Sealing) (*awskms.Sealer, error) {
	cfg, err := awsclients.Config(os.Getenv)
	if err != nil {
		return nil, err
	}
	client, err := awsclients.KMS(cfg, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return awskms.New(client, s.KMSKey), nil
}

// flush prints the counts of an invocation. That it could not is no reason to
// have the invocation repeated.
func flush(ctx context.Context, m *metrics.Meter, log *slog.Logger) {
	if err := m.Flush(); err != nil {
		log.ErrorContext(ctx, "counts of this invocation are lost", "error", err)
	}
}
