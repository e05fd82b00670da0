// Package tracing is what fedpost reports to OpenTelemetry, and how a trace travels with an activity.
//
// A call to the API is a SERVER span, in the caller's trace if the caller sent a traceparent. Putting the
// activity on its queue is a PRODUCER span below it. If that span is sampled, its traceparent goes into the
// activity, and with it through all queues and tables. The work on each message is a CONSUMER span in a
// trace of its own, linked to the producer's: a delivery may take days, and thousands of spans would drown
// the caller's trace. Each attempt is a CLIENT span below it.
//
// So the sampler decides once, when a call is accepted. An activity whose call was not sampled makes no
// spans and costs nothing. No request has a traceparent.
//
// Names and attributes are those of OpenTelemetry's semantic conventions 1.43.0, for HTTP (stable) and
// messaging: https://opentelemetry.io/docs/specs/semconv/
package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct {
	accept, work trace.Tracer
	system       string
}

// New returns a tracer. accept samples what callers send. work must sample everything, because it works
// only on what accept has sampled. system is messaging.system, such as aws_sqs.
func New(accept, work trace.Tracer, system string) *Tracer { return &Tracer{accept, work, system} }

// Span is an open span. A nil Span does nothing.
type Span struct {
	span     trace.Span
	attempts int
}

// End closes the span, as failed if err is not nil.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, text(err.Error()))
		s.span.SetAttributes(semconv.ErrorType(err))
	}
	s.span.End()
}

const (
	traceparent = "Traceparent"
	tracestate  = "Tracestate"
	// len00 is the length of a traceparent of version 00.
	len00 = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	// maxState is the longest tracestate in bytes that is taken over, the least that W3C asks for:
	// https://www.w3.org/TR/trace-context/#tracestate-limits
	maxState = 512
)

var w3c propagation.TraceContext

// caller returns ctx with the caller's trace, if the request names one
// (https://www.w3.org/TR/trace-context/#traceparent-header). A malformed header begins a new trace.
func caller(ctx context.Context, h http.Header) context.Context {
	parent := h.Get(traceparent)
	// The library accepts version 00 with a dash at its end.
	if len(h.Values(traceparent)) != 1 || strings.HasPrefix(parent, "00") && len(parent) != len00 {
		return ctx
	}
	carrier := propagation.MapCarrier{"traceparent": parent}
	if states := h.Values(tracestate); len(states) == 1 && len(states[0]) <= maxState {
		carrier["tracestate"] = states[0]
	}
	return w3c.Extract(ctx, carrier)
}

// Carried returns what an activity carries of the span in ctx: its traceparent if it is sampled, else "".
func Carried(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// origin returns a link to what an activity carries, and whether it is sampled.
func origin(carried string) (trace.Link, bool) {
	if carried == "" {
		return trace.Link{}, false
	}
	ctx := w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": carried})
	sc := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: sc}, sc.IsSampled()
}
