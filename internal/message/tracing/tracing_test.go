package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message/tracing"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

// tracer returns a tracer that samples calls by s, and a recorder of its spans.
func tracer(s sdk.Sampler) (*tracing.Tracer, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	with := func(s sdk.Sampler) trace.Tracer {
		return sdk.NewTracerProvider(sdk.WithSampler(s), sdk.WithSpanProcessor(r)).Tracer("")
	}
	return tracing.New(with(s), with(sdk.AlwaysSample()), "fedpost"), r
}

// call makes a call to the API with headers, and returns what its activity carries.
func call(t *tracing.Tracer, h http.Header) string {
	r := httptest.NewRequest(http.MethodPost, "/v1/activities", nil)
	r.Header = h
	ctx, end := t.Request(r, "POST /v1/activities")
	ctx, span := t.Send(ctx, queue.Normal, "id", 1, 1)
	carried := tracing.Carried(ctx)
	span.End(nil)
	end(http.StatusAccepted)
	return carried
}

// TestAMalformedTraceparentIsIgnored: it begins a new trace, and is no error.
// https://www.w3.org/TR/trace-context/#traceparent-header-field-values
func TestAMalformedTraceparentIsIgnored(t *testing.T) {
	for _, given := range [][]string{
		nil,
		{""},
		{"-"},
		{"00"},
		{parent, parent},
		{parent + "-"},
		{parent + "0"},
		{"ff" + parent[2:]},
		{"0" + parent},
		{strings.ToUpper(parent)},
		{strings.Replace(parent, "-", "_", 1)},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
		{"00-" + traceID + "-0000000000000000-01"},
		{"00-" + traceID + "-00f067aa0ba902b7-zz"},
		{strings.Repeat("0", 60_000)},
		{"\x00\xff" + parent},
	} {
		tracer, spans := tracer(sdk.ParentBased(sdk.AlwaysSample()))
		h := http.Header{}
		if given != nil {
			h["Traceparent"] = given
		}
		carried := call(tracer, h)
		if len(carried) != 55 || strings.Contains(carried, traceID) {
			t.Errorf("%.70q: the activity carries %q", given, carried)
		}
		for _, s := range spans.Ended() {
			if s.SpanKind() == trace.SpanKindServer && s.Parent().IsValid() {
				t.Errorf("%.70q: the call is below %v", given, s.Parent())
			}
		}
	}
}

func TestACallIsInTheTraceOfItsCaller(t *testing.T) {
	tracer, spans := tracer(sdk.ParentBased(sdk.NeverSample()))
	carried := call(tracer, http.Header{"Traceparent": {parent}})
	sent := spans.Ended()[0]
	if want := fmt.Sprintf("00-%s-%s-01", traceID, sent.SpanContext().SpanID()); carried != want {
		t.Errorf("the activity carries %q, want %q", carried, want)
	}
	if n := len(spans.Ended()); n != 2 {
		t.Errorf("%d spans", n)
	}
}

// TestWhatTheCallerDoesNotSampleCarriesNothing, so that no message is longer and no worker
// makes a span.
func TestWhatTheCallerDoesNotSampleCarriesNothing(t *testing.T) {
	tracer, spans := tracer(sdk.ParentBased(sdk.AlwaysSample()))
	if got := call(tracer, http.Header{"Traceparent": {parent[:len(parent)-1] + "0"}}); got != "" {
		t.Errorf("the activity carries %q", got)
	}
	ctx, span := tracer.Process(t.Context(), tracing.Received{From: queue.Normal}, activity.Activity{})
	tracer.Attempted(ctx, tracing.Attempt{Inbox: "https://a.example/inbox"})
	span.EndReceive(true, nil)
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

func TestATracestateIsBounded(t *testing.T) {
	for state, want := range map[string]string{
		"vendor=1,other=2": "vendor=1,other=2",
		"vendor=" + strings.Repeat("x", 250) + ",other=" + strings.Repeat("y", 300): "",
		"=": "",
	} {
		tracer, spans := tracer(sdk.AlwaysSample())
		carried := call(tracer, http.Header{"Traceparent": {parent}, "Tracestate": {state}})
		if len(carried) != 55 {
			t.Errorf("the activity carries %q", carried)
		}
		if got := spans.Ended()[1].SpanContext().TraceState().String(); got != want {
			t.Errorf("%.40q becomes %q", state, got)
		}
		if got := spans.Ended()[1].SpanContext().TraceID().String(); got != traceID {
			t.Errorf("%.40q: the call is in trace %s", state, got)
		}
	}
}

func TestWithoutATracerNothingIsDone(t *testing.T) {
	var none *tracing.Tracer
	if got := call(none, http.Header{"Traceparent": {parent}}); got != "" {
		t.Errorf("the activity carries %q", got)
	}
	traced := activity.Activity{Trace: parent}
	ctx, span := none.Process(t.Context(), tracing.Received{}, traced)
	none.Attempted(ctx, tracing.Attempt{})
	span.EndReceive(true, nil)
	if ctx != t.Context() || span != nil {
		t.Error("a span was made")
	}
}

// TestWhatAQueueSaysIsNotTrusted: a message may come from another version, or from anybody
// who can write to the queue.
func TestWhatAQueueSaysIsNotTrusted(t *testing.T) {
	for _, carried := range []string{"", "nonsense", parent + "x", parent[:len(parent)-1] + "0", strings.Repeat("00-", 100_000)} {
		tracer, spans := tracer(sdk.AlwaysSample())
		_, span := tracer.Process(t.Context(), tracing.Received{From: queue.High}, activity.Activity{Trace: carried})
		span.EndReceive(true, nil)
		if n := len(spans.Ended()); n != 0 {
			t.Errorf("%.60q leads to %d spans", carried, n)
		}
	}
}

func TestABatchLinksToEachOfItsCallsOnce(t *testing.T) {
	tracer, spans := tracer(sdk.AlwaysSample())
	about := []activity.Activity{{ID: "a"}, {ID: "b", Trace: parent}, {ID: "c", Trace: parent}}
	for i := range 200 {
		about = append(about, activity.Activity{Trace: fmt.Sprintf("00-%s-%016x-01", traceID, i+1)})
	}
	_, span := tracer.Process(t.Context(), tracing.Received{From: queue.High, ID: "m", Began: time.Now()}, about...)
	span.End(nil)
	if links := spans.Ended()[0].Links(); len(links) != 100 || links[1].SpanContext.SpanID().String() != "0000000000000001" {
		t.Errorf("%d links, the second %v", len(links), links[1])
	}
}

// TestAReceiveWithoutWorkIsNoSpan: a message may be received a hundred times before it is due.
func TestAReceiveWithoutWorkIsNoSpan(t *testing.T) {
	tracer, spans := tracer(sdk.AlwaysSample())
	receive := func(done, attempt bool, err error) int {
		before := len(spans.Ended())
		ctx, span := tracer.Process(t.Context(), tracing.Received{From: queue.Low, Began: time.Now()}, activity.Activity{Trace: parent})
		if attempt {
			tracer.Attempted(ctx, tracing.Attempt{Inbox: "https://a.example:8443/inbox", Ended: time.Now(), Tries: 1})
		}
		span.EndReceive(done, err)
		return len(spans.Ended()) - before
	}
	if n := receive(false, false, nil); n != 0 {
		t.Errorf("%d spans of a receive before the turn", n)
	}
	if n := receive(true, false, nil); n != 1 {
		t.Errorf("%d spans of a message that was done", n)
	}
	if n := receive(false, true, nil); n != 2 {
		t.Errorf("%d spans of an attempt that failed", n)
	}
	if n := receive(false, false, errors.New("the table\x00 is down")); n != 1 {
		t.Errorf("%d spans of a failure", n)
	}
	last := spans.Ended()[len(spans.Ended())-1]
	if s := last.Status(); s.Code != codes.Error || strings.ContainsRune(s.Description, 0) {
		t.Errorf("a failure has the status %v", s)
	}
}

func TestAttemptsSayWhatFailed(t *testing.T) {
	for _, c := range []struct {
		out  outcome.Outcome
		kind string
	}{
		{outcome.Outcome{Class: outcome.Delivered, Status: 202}, ""},
		{outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "slow down"}, "429"},
		{outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer"}, string(outcome.Timeout)},
		{outcome.Outcome{Class: outcome.Retry, Err: strings.Repeat("é", 5000)}, "retry"},
	} {
		tracer, spans := tracer(sdk.AlwaysSample())
		ctx, span := tracer.Process(t.Context(), tracing.Received{From: queue.Low, Began: time.Now()}, activity.Activity{Trace: parent})
		ended := time.Now()
		c.out.Took = time.Second
		tracer.Attempted(ctx, tracing.Attempt{Inbox: "http://a.example/in?box", Ended: ended, Tries: 2, Out: c.out, State: activity.Retrying})
		span.End(nil)
		s := spans.Ended()[0]
		got := map[string]string{}
		for _, a := range s.Attributes() {
			got[string(a.Key)] = a.Value.String()
		}
		if got["error.type"] != c.kind || got["server.port"] != "80" || got["server.address"] != "a.example" || got["http.request.resend_count"] != "1" {
			t.Errorf("%v: %v", c.out.Class, got)
		}
		if failed := s.Status().Code == codes.Error; failed != (c.kind != "") || len(s.Status().Description) > 1024 {
			t.Errorf("%v: status %v", c.out.Class, s.Status())
		}
		if s.EndTime().Sub(s.StartTime()) != time.Second {
			t.Errorf("from %v to %v", s.StartTime(), s.EndTime())
		}
	}
}

// TestAnAnswerOf500IsAnError and one of 400 is the client's.
func TestAnAnswerOf500IsAnError(t *testing.T) {
	for status, want := range map[int]codes.Code{200: codes.Unset, 400: codes.Unset, 500: codes.Error, 503: codes.Error} {
		tracer, spans := tracer(sdk.AlwaysSample())
		_, end := tracer.Request(httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/keys/a%2Fb?secret=1", nil), "POST /v1/keys/{id}")
		end(status)
		s := spans.Ended()[0]
		if s.Status().Code != want || s.Name() != "POST /v1/keys/{id}" {
			t.Errorf("%d: %s has the status %v", status, s.Name(), s.Status())
		}
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s shows the query", a.Key)
			}
		}
	}
}
