package config

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Tracing says where spans go. The variables are OpenTelemetry's own.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
type Tracing struct {
	Endpoint string  `env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"the collector that takes traces by OTLP/HTTP, such as http://localhost:4318; /v1/traces is added; empty: no traces"`
	Protocol string  `env:"OTEL_EXPORTER_OTLP_PROTOCOL" envDefault:"http/protobuf" help:"http/protobuf; fedpost speaks no other"`
	Service  string  `env:"OTEL_SERVICE_NAME" envDefault:"fedpost" help:"service.name of all spans"`
	Sampler  string  `env:"OTEL_TRACES_SAMPLER" envDefault:"parentbased_always_on" help:"always_on, always_off, traceidratio, or each with parentbased_ before it, which honours the caller's traceparent"`
	Ratio    float64 `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1" min:"0" max:"1" help:"the share of traces that traceidratio keeps: 0 to 1"`
}

// TracingHeaders are headers for the collector. On AWS the collector is an extension, which holds the
// token.
type TracingHeaders struct {
	Headers OTLPHeaders `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"true" help:"headers for the collector, such as a token: name=value, percent-encoded, separated by commas"`
}

// Samplers are the values of OTEL_TRACES_SAMPLER that fedpost knows.
var Samplers = []string{
	"always_on", "always_off", "traceidratio",
	"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
}

func (t *Tracing) check(r *report) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	if t.Protocol != "http/protobuf" {
		r.add("OTEL_EXPORTER_OTLP_PROTOCOL", fmt.Sprintf("is %q", t.Protocol), "set it to http/protobuf, the only one that fedpost speaks, or leave it out")
	}
	r.oneOf("OTEL_TRACES_SAMPLER", t.Sampler, Samplers...)
	if t.Endpoint == "" {
		return
	}
	if u, err := url.Parse(t.Endpoint); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" {
		r.add(endpoint, "is no absolute URL without a query", "set it to the collector's, such as http://localhost:4318")
	}
}

// OTLPHeaders are the headers of requests to a collector.
type OTLPHeaders map[string]string

// UnmarshalText implements encoding.TextUnmarshaler. The form is that of W3C Baggage,
// without properties.
func (h *OTLPHeaders) UnmarshalText(b []byte) error {
	*h = OTLPHeaders{}
	for pair := range strings.SplitSeq(string(b), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("not a list of name=value with commas between them: one of %d bytes is neither", len(pair))
		}
		(*h)[http.CanonicalHeaderKey(name)] = value
	}
	return nil
}
