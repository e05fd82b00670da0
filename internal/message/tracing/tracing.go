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
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
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
		s.span.SetStatus(codes.Error, outcome.Text(err.Error()))
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

// Attributes that the conventions have no names for.
const (
	keyActivity   = attribute.Key("fedpost.activity.id")
	keyActivities = attribute.Key("fedpost.activities")
	keyType       = attribute.Key("fedpost.activity.type")
	keyProtocol   = attribute.Key("fedpost.protocol")
	keyRecipients = attribute.Key("fedpost.recipients")
	keyReceives   = attribute.Key("fedpost.receives")
	keyTrial      = attribute.Key("fedpost.trial")
	keyTry        = attribute.Key("fedpost.try")
	keyState      = attribute.Key("fedpost.state")
	keyOutcome    = attribute.Key("fedpost.outcome")
)

// Request opens the span of a request to the API; route is such as "POST /v1/activities". The returned
// function closes the span with the status of the answer.
func (t *Tracer) Request(r *http.Request, route string) (context.Context, func(status int)) {
	if t == nil {
		return r.Context(), func(int) {}
	}
	scheme := "http"
	if r.TLS != nil || r.URL.Scheme == "https" { // the latter of API Gateway's events
		scheme = "https"
	}
	_, path, _ := strings.Cut(route, " ")
	ctx, span := t.accept.Start(caller(r.Context(), r.Header), r.Method+" "+path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(r.Method), semconv.HTTPRoute(path), semconv.URLPath(outcome.Text(r.URL.Path)), semconv.URLScheme(scheme),
	))
	return ctx, func(status int) {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if status >= http.StatusInternalServerError {
			// A 4xx is the client's fault, and no error of a server's span.
			span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Send opens the span of putting activities on a queue, or in the agenda.
func (t *Tracer) Send(ctx context.Context, to queue.Name, first activity.ID, activities, recipients int) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx, span := t.accept.Start(ctx, "send "+string(to), trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		semconv.MessagingSystemKey.String(t.system), semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend,
		semconv.MessagingDestinationName(string(to)), keyActivity.String(string(first)), keyActivities.Int(activities), keyRecipients.Int(recipients),
	))
	return ctx, &Span{span: span}
}

// Received is a message that is worked on.
type Received struct {
	From     queue.Name
	ID       string
	Receives int
	Began    time.Time // by the wall clock
	Trial    bool
}

// maxLinks is to how many activities of a message its span links: the most that a batch has.
const maxLinks = 100

// Process opens the span of the work on a message about some activities. If none of them carries a trace,
// it returns ctx and nil.
func (t *Tracer) Process(ctx context.Context, m Received, about ...activity.Activity) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	var links []trace.Link
	for _, a := range about {
		if l, ok := origin(a.Trace); ok && len(links) < maxLinks && (len(links) == 0 || !links[len(links)-1].SpanContext.Equal(l.SpanContext)) {
			links = append(links, l)
		}
	}
	if len(links) == 0 {
		return ctx, nil
	}
	first := about[0]
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(t.system), semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(string(m.From)), semconv.MessagingMessageID(outcome.Text(m.ID)), keyReceives.Int(m.Receives),
		keyActivity.String(string(first.ID)), keyActivities.Int(len(about)),
		keyType.String(outcome.Text(first.Type)), keyProtocol.String(string(first.Protocol)),
	}
	if m.Trial {
		attributes = append(attributes, keyTrial.Bool(true))
	}
	ctx, span := t.work.Start(ctx, "process "+string(m.From), trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(m.Began), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	s := &Span{span: span}
	return context.WithValue(ctx, spanKey{}, s), s
}

type spanKey struct{}

// EndReceive closes the span of a message that came back. A receive without an attempt, because it was not
// the message's turn, makes no span: there may be many.
func (s *Span) EndReceive(done bool, err error) {
	if s == nil || !done && err == nil && s.attempts == 0 {
		return
	}
	s.End(err)
}

// Attempt is an attempt to deliver that has ended.
type Attempt struct {
	Inbox string
	Ended time.Time // by the wall clock
	Tries int       // this one included
	Out   outcome.Outcome
	State activity.State // that it led to
}

// Attempted makes a span of an attempt, below that of the message in ctx. Attempts of one message must come
// one after another. Several requests of an attempt are one span, with the last answer.
func (t *Tracer) Attempted(ctx context.Context, a Attempt) {
	s, _ := ctx.Value(spanKey{}).(*Span)
	if t == nil || s == nil || a.Out.Try != outcome.Made {
		return
	}
	s.attempts++
	attributes := []attribute.KeyValue{
		semconv.HTTPRequestMethodPost, semconv.URLFull(outcome.Text(a.Inbox)),
		keyTry.Int(a.Tries), keyState.String(string(a.State)), keyOutcome.String(string(a.Out.Class)),
	}
	if u, err := url.Parse(a.Inbox); err == nil {
		attributes = append(attributes, semconv.ServerAddress(outcome.Text(u.Hostname())), semconv.ServerPort(port(u)))
	}
	if a.Tries > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(a.Tries-1))
	}
	if a.Out.Status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(a.Out.Status))
	}
	if a.Out.Class != outcome.Delivered {
		attributes = append(attributes, semconv.ErrorTypeKey.String(failure(a.Out)))
	}
	_, span := t.work.Start(ctx, http.MethodPost, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(a.Ended.Add(-a.Out.Took)), trace.WithAttributes(attributes...))
	if a.Out.Class != outcome.Delivered {
		span.SetStatus(codes.Error, outcome.Text(a.Out.Err))
	}
	span.End(trace.WithTimestamp(a.Ended))
}

// failure is error.type of an attempt: the status, or the kind of the fault.
func failure(o outcome.Outcome) string {
	switch {
	case o.Status != 0:
		return strconv.Itoa(o.Status)
	case o.Reason != outcome.ReasonNone:
		return string(o.Reason)
	}
	return string(o.Class)
}

func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
