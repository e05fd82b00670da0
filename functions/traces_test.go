package functions

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"fedpost/internal/testkit/collector"
)

// TestFunctionsSendTheirSpans at the end of an invocation: at no other time do they run.
func TestFunctionsSendTheirSpans(t *testing.T) {
	t.Parallel()
	c := collector.New(t)
	s := newSite(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	var called, sent, attempt *collector.Span
	// An invocation waits half a second for its collector, which a busy machine may not keep.
	// So few spans make no full batch, which would be sent without a flush.
	for n := 0; n < 30 && (sent == nil || attempt == nil); n++ {
		s.submit(s.server.URL + "/inbox")
		s.work()
		processed := map[string]*collector.Span{}
		for _, span := range c.Spans() {
			switch span.Kind {
			case trace.Span_SPAN_KIND_SERVER:
				called = span
			case trace.Span_SPAN_KIND_PRODUCER:
				sent = span
			case trace.Span_SPAN_KIND_CONSUMER:
				processed[string(span.SpanId)] = span
			}
		}
		for _, span := range c.Spans() {
			if above := processed[string(span.ParentSpanId)]; above != nil && sent != nil && string(above.Links[0].TraceId) == string(sent.TraceId) {
				attempt = span
			}
		}
	}
	if sent == nil || attempt == nil {
		t.Fatalf("%d spans have come, and none of a call and of its attempt", len(c.Spans()))
	}
	if called.Attribute("url.scheme") != "https" || sent.Attribute("messaging.system") != "aws_sqs" || attempt.Attribute("http.response.status_code") != int64(http.StatusAccepted) {
		t.Errorf("the call's span is %v, the message's %v, the attempt's %v; want https, aws_sqs and 202", called, sent, attempt)
	}
	for _, p := range s.inbox.Posts() {
		if p.Header.Get("Traceparent") != "" || strings.Contains(strings.ToLower(p.Body), hex.EncodeToString(sent.TraceId)) {
			t.Errorf("the inbox is told of the trace: %v", p.Header)
		}
	}
}

// TestFunctionsWorkWithoutTheirCollector, which hangs or is not there.
func TestFunctionsWorkWithoutTheirCollector(t *testing.T) {
	hangs := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(stuck.Close)
	t.Cleanup(func() { close(hangs) })
	for name, url := range map[string]string{"hangs": stuck.URL, "is not there": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "OTEL_EXPORTER_OTLP_ENDPOINT", url)
			for range 3 {
				s.submit(s.server.URL + "/inbox")
				s.work()
			}
			s.stop()
			if n := len(s.inbox.Posts()); n != 3 {
				t.Errorf("%d deliveries, want 3", n)
			}
		})
	}
}
