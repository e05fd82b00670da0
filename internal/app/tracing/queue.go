package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

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
