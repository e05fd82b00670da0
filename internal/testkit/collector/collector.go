// Package collector receives traces as an OpenTelemetry collector does, by OTLP over HTTP,
// and keeps the spans for a test to judge.
//
// A new test starts one, sets OTEL_EXPORTER_OTLP_ENDPOINT to its URL, and looks at Spans once
// what is traced has ended and flushed:
//
//	c := collector.New(t)
//	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
//	…
//	for _, span := range c.Spans() {
//		if got := span.Attribute("url.scheme"); got != "https" {
//			t.Errorf("span %s has url.scheme %v, want https", span.Name, got)
//		}
//	}
package collector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is a collector on loopback.
type Collector struct {
	// URL is what OTEL_EXPORTER_OTLP_ENDPOINT is set to.
	URL string

	mu      sync.Mutex
	spans   []*Span
	headers []http.Header
}

// Span is a span with the attributes of its resource.
type Span struct {
	*trace.Span
	Resource map[string]any
}

// New starts a collector, which ends with the test.
func New(t testing.TB) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		// The request of OTLP has the one field of TracesData.
		var data trace.TracesData
		switch {
		case r.Method != http.MethodPost, r.URL.Path != "/v1/traces", r.Header.Get("Content-Type") != "application/x-protobuf":
			t.Errorf("a collector got %s %s, %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
			w.WriteHeader(http.StatusNotFound)
			return
		case err != nil:
			return // the sender has gone
		}
		if err := proto.Unmarshal(body, &data); err != nil || len(data.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("a collector got what is no traces: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.add(r.Header, &data)
		w.Header().Set("Content-Type", "application/x-protobuf") // the empty message: all was taken
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) add(h http.Header, data *trace.TracesData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, h.Clone())
	for _, r := range data.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, &Span{s, values(r.Resource.Attributes)})
			}
		}
	}
}

// Spans returns what was received, in the order in which the spans began.
func (c *Collector) Spans() []*Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.spans)
	slices.SortStableFunc(all, func(a, b *Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return all
}

// Headers returns those of all requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Attribute is an attribute of the span, as a string, int64 or bool; nil if there is none.
func (s *Span) Attribute(name string) any { return values(s.Attributes)[name] }

func values(all []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = v.IntValue
		case *common.AnyValue_BoolValue:
			m[a.Key] = v.BoolValue
		}
	}
	return m
}
