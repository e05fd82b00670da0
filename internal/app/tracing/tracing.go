// Package tracing sends spans to a collector by OTLP over HTTP.
//
// Sending never delays a delivery: one goroutine sends spans in batches from a bounded queue. Spans
// that find the queue full, or that the collector does not take in time, are dropped and counted.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"fedpost/internal/app/config"
	spans "fedpost/internal/message/tracing"
)

// Values of messaging.system.
const (
	SQS      = "aws_sqs"
	Embedded = "fedpost"
)

const (
	// scope names the code that makes the spans.
	scope = "fedpost"

	queueLength = 8192 // spans
	batchLength = 512  // spans, some hundred kilobytes
	batchEvery  = 5 * time.Second
	neverByTime = 24 * time.Hour   // in place of batchEvery
	sendTime    = 10 * time.Second // for one batch, tries included
)

// Exporter makes spans and sends them. A nil Exporter does neither.
type Exporter struct {
	tracer    *spans.Tracer
	providers []*sdk.TracerProvider
	queue     *queue
	flushing  sync.Mutex
}

// Process is the process that makes spans.
type Process struct {
	System string // messaging.system of its queues: SQS or Embedded
	// Frozen: the process is frozen between invocations, and calls Flush at the end of each.
	// Nothing is sent otherwise.
	Frozen     bool
	Attributes []attribute.KeyValue // of its resource
}

// Open returns an exporter, or nil if no collector is configured or nothing is sampled.
func Open(c config.Tracing, h config.TracingHeaders, p Process, log *slog.Logger) (*Exporter, error) {
	if c.Endpoint == "" || c.Sampler == "always_off" {
		return nil, nil
	}
	about, err := resource.Merge(resource.Default(), resource.NewWithAttributes(semconv.SchemaURL, append(p.Attributes, semconv.ServiceName(c.Service))...))
	if err != nil {
		return nil, fmt.Errorf("describe this process for traces: %w", err)
	}
	out, err := otlptrace.New(context.Background(), newClient(c.Endpoint, h.Headers))
	if err != nil {
		return nil, fmt.Errorf("exporter of traces: %w", err)
	}
	every := batchEvery
	if p.Frozen {
		every = neverByTime
	}
	q := newQueue(out, every, log)
	provider := func(s sdk.Sampler) *sdk.TracerProvider {
		return sdk.NewTracerProvider(sdk.WithSampler(s), sdk.WithResource(about), sdk.WithSpanProcessor(q))
	}
	accept, work := provider(sampler(c)), provider(sdk.AlwaysSample())
	return &Exporter{
		tracer:    spans.New(accept.Tracer(scope), work.Tracer(scope), p.System),
		providers: []*sdk.TracerProvider{accept, work}, queue: q,
	}, nil
}

// sampler is the sampler of calls.
func sampler(c config.Tracing) sdk.Sampler {
	ratio := sdk.TraceIDRatioBased(c.Ratio)
	switch c.Sampler {
	case "always_on":
		return sdk.AlwaysSample()
	case "traceidratio":
		return ratio
	case "parentbased_always_off":
		return sdk.ParentBased(sdk.NeverSample())
	case "parentbased_traceidratio":
		return sdk.ParentBased(ratio)
	}
	return sdk.ParentBased(sdk.AlwaysSample())
}

// Tracer makes the spans; nil if e is nil.
func (e *Exporter) Tracer() *spans.Tracer {
	if e == nil {
		return nil
	}
	return e.tracer
}

var ErrFlushing = errors.New("the collector has not answered yet")

// Flush sends what is queued, and waits for it until ctx ends. The sending then goes on, and
// other calls of Flush do not wait for it.
func (e *Exporter) Flush(ctx context.Context) error {
	if e == nil {
		return nil
	}
	if !e.flushing.TryLock() {
		return ErrFlushing
	}
	done := make(chan error, 1)
	go func() {
		defer e.flushing.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
		defer cancel()
		done <- e.queue.ForceFlush(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ErrFlushing
	}
}

// Close sends what is queued. It returns an error if ctx ends before that.
func (e *Exporter) Close(ctx context.Context) error {
	if e == nil {
		return nil
	}
	var errs []error
	for _, p := range e.providers {
		errs = append(errs, p.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// Counts are counts of spans.
type Counts struct {
	Exported int64 // the collector has them
	Failed   int64 // the collector did not take them
	Dropped  int64 // the queue was full
}

// Counts counts since the start; zero if e is nil.
func (e *Exporter) Counts() Counts {
	if e == nil {
		return Counts{}
	}
	return Counts{Exported: e.queue.exported.Load(), Failed: e.queue.failed.Load(), Dropped: e.queue.dropped.Load()}
}

// queue is the SDK's batching processor with a count of dropped spans, which the SDK does not
// report. So queue passes on no more spans than fit into the SDK's queue.
type queue struct {
	sdk.SpanProcessor
	out sdk.SpanExporter
	log *slog.Logger

	inside                    atomic.Int64
	exported, failed, dropped atomic.Int64
	logged                    atomic.Int64 // when a failure was last logged, in Unix seconds
}

func newQueue(out sdk.SpanExporter, every time.Duration, log *slog.Logger) *queue {
	q := &queue{out: out, log: log}
	q.SpanProcessor = sdk.NewBatchSpanProcessor(sender{q},
		sdk.WithMaxQueueSize(queueLength), sdk.WithMaxExportBatchSize(batchLength),
		sdk.WithBatchTimeout(every), sdk.WithExportTimeout(sendTime))
	return q
}

// OnEnd implements sdk.SpanProcessor. It does not block.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.inside.Add(1) > queueLength {
		q.inside.Add(-1)
		q.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// sender sends what is in a queue, for the batching processor.
type sender struct{ *queue }

func (q sender) Shutdown(ctx context.Context) error { return q.out.Shutdown(ctx) }

// ExportSpans implements sdk.SpanExporter. Failures are counted, logged once a minute at most, and
// not returned: the SDK would print each.
func (q sender) ExportSpans(ctx context.Context, all []sdk.ReadOnlySpan) error {
	n := int64(len(all))
	defer q.inside.Add(-n)
	err := q.out.ExportSpans(ctx, all)
	if err == nil {
		q.exported.Add(n)
		return nil
	}
	q.failed.Add(n)
	now, last := time.Now().Unix(), q.logged.Load()
	if now-last >= 60 && q.logged.CompareAndSwap(last, now) {
		q.log.WarnContext(ctx, "spans are lost because the collector did not take them; deliveries go on",
			"spans", n, "failed", q.failed.Load(), "dropped", q.dropped.Load(), "error", err)
	}
	return nil
}
