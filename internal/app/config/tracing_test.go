package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestSettingsOfTracesAreChecked(t *testing.T) {
	for _, c := range []struct{ name, value, wrong string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example/otlp/", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "no absolute URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example?key=1", "without a query"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "set it to http/protobuf"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", "always_on, always_off"},
		{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio", ""},
		{"OTEL_TRACES_SAMPLER_ARG", "0.25", ""},
		{"OTEL_TRACES_SAMPLER_ARG", "1.1", "OTEL_TRACES_SAMPLER_ARG"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=se%2Ccret, x = y ,", ""},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key", "name=value"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api key=secret", "name=value"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%0A", "name=value"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%", "name=value"},
	} {
		var got struct {
			Tracing
			TracingHeaders
		}
		err := From(&got, map[string]string{c.name: c.value})
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s=%s: error %v, want none", c.name, c.value, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s=%s: error %v, want one with %q", c.name, c.value, err, c.wrong)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s is shown in %v", c.name, c.value, err)
		}
		if c.name == "OTEL_EXPORTER_OTLP_HEADERS" && err == nil {
			if got := fmt.Sprint(got.Headers); got != "map[Api-Key:se,cret X:y]" {
				t.Errorf("the headers are %s", got)
			}
		}
	}
}
