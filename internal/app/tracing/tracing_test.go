package tracing

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"fedpost/internal/app/config"
	names "fedpost/internal/engine/queue"
	spans "fedpost/internal/message/tracing"
	"fedpost/internal/testkit/collector"
)

var quiet = slog.New(slog.DiscardHandler)

// settings are the settings of an environment.
func settings(t *testing.T, environ map[string]string) (config.Tracing, config.TracingHeaders) {
	t.Helper()
	var c struct {
		config.Tracing
		config.TracingHeaders
	}
	if err := config.From(&c, environ); err != nil {
		t.Fatal(err)
	}
	return c.Tracing, c.TracingHeaders
}

func TestWithoutACollectorNothingIsTraced(t *testing.T) {
	for _, environ := range []map[string]string{
		{}, {"OTEL_TRACES_SAMPLER": "always_on"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "always_off"},
	} {
		c, h := settings(t, environ)
		e, err := Open(c, h, Process{System: SQS}, quiet)
		if e != nil || err != nil || e.Tracer() != nil || e.Counts() != (Counts{}) {
			t.Errorf("%v: %v, %v", environ, e, err)
		}
		if err := errors.Join(e.Flush(t.Context()), e.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

const (
	sampled   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// TestTheSamplerDecides on calls, as its name says.
func TestTheSamplerDecides(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"always_on":                {"": true, sampled: true, unsampled: true},
		"parentbased_always_on":    {"": true, sampled: true, unsampled: false},
		"parentbased_always_off":   {"": false, sampled: true, unsampled: false},
		"traceidratio":             {"": false, sampled: false, unsampled: false},
		"parentbased_traceidratio": {"": false, sampled: true, unsampled: false},
	} {
		c, _ := settings(t, map[string]string{"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": "0"})
		s := sampler(c)
		tracer := sdk.NewTracerProvider(sdk.WithSampler(s)).Tracer("")
		all := spans.New(tracer, tracer, SQS)
		for parent, want := range want {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/activities", nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Header.Set("Traceparent", parent); parent == "" {
				r.Header.Del("Traceparent")
			}
			ctx, end := all.Request(r, "POST /v1/activities")
			if got := spans.Carried(ctx) != ""; got != want {
				t.Errorf("%s, traceparent %q: sampled %t", name, parent, got)
			}
			end(http.StatusAccepted)
		}
	}
}

func TestSpansReachTheCollectorAtAStop(t *testing.T) {
	c := collector.New(t)
	where, headers := settings(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/", "OTEL_SERVICE_NAME": "mail", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x",
	})
	e, err := Open(where, headers, Process{System: SQS}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	_, s := e.Tracer().Send(t.Context(), names.High, "id", 1, 1)
	s.End(nil)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := c.Spans()
	if len(all) != 1 || all[0].Name != "send high" || all[0].Resource["service.name"] != "mail" || all[0].Attribute("messaging.system") != "aws_sqs" {
		t.Errorf("spans are %v; want one, send high of mail on aws_sqs", all)
	}
	if got := c.Headers()[0].Get("Authorization"); got != "Bearer x" {
		t.Errorf("the collector got %q", got)
	}
	if got := e.Counts(); got != (Counts{Exported: 1}) {
		t.Errorf("counts are %+v, want 1 exported", got)
	}
}

// stuck is a collector that hangs until it is released.
type stuck struct {
	letGo chan struct{}
	err   error
}

func (s stuck) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { <-s.letGo; return s.err }
func (s stuck) Shutdown(context.Context) error                        { return nil }

// TestACollectorThatHangsHoldsUpNothing: spans beyond the queue are dropped and counted, at
// once, and the rest is sent when the collector is back.
func TestACollectorThatHangsHoldsUpNothing(t *testing.T) {
	out := stuck{letGo: make(chan struct{})}
	q := newQueue(out, batchEvery, quiet)
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(q))
	tracer := p.Tracer("")
	const more = 1000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range (queueLength + more) / 4 {
				_, s := tracer.Start(context.Background(), "s")
				s.End()
			}
		})
	}
	wg.Wait() // nothing waits for the collector
	if got := q.dropped.Load(); got != more {
		t.Errorf("%d spans were dropped, want %d", got, more)
	}
	close(out.letGo)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := q.exported.Load(); got != queueLength {
		t.Errorf("%d spans were sent, want %d", got, queueLength)
	}
	if got := q.inside.Load(); got != 0 {
		t.Errorf("%d spans are thought to be in the queue", got)
	}
}

// TestAStopDoesNotWaitForACollector longer than it may.
func TestAStopDoesNotWaitForACollector(t *testing.T) {
	out := stuck{letGo: make(chan struct{})}
	defer close(out.letGo)
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(newQueue(out, batchEvery, quiet)))
	_, s := p.Tracer("").Start(t.Context(), "s")
	s.End()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestAFlushWaitsForACollectorOnce: a frozen process sends nothing by itself, and a
// collector that hangs holds up one of its invocations, not each.
func TestAFlushWaitsForACollectorOnce(t *testing.T) {
	out := stuck{letGo: make(chan struct{})}
	q := newQueue(out, neverByTime, quiet)
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(q))
	e := &Exporter{queue: q, providers: []*sdk.TracerProvider{p}}
	_, s := p.Tracer("").Start(t.Context(), "s")
	s.End()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := e.Flush(ctx); !errors.Is(err, ErrFlushing) {
		t.Errorf("error %v", err)
	}
	if err := e.Flush(t.Context()); !errors.Is(err, ErrFlushing) { // which has no end of its own
		t.Errorf("error %v", err)
	}
	close(out.letGo)
	e.flushing.Lock() // the first flush has ended
	if got := e.Counts(); got != (Counts{Exported: 1}) {
		t.Errorf("counts are %+v, want 1 exported", got)
	}
	e.flushing.Unlock()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFailuresAreCountedAndLoggedOnce a minute.
func TestFailuresAreCountedAndLoggedOnce(t *testing.T) {
	var log strings.Builder
	out := stuck{letGo: make(chan struct{}), err: errors.New("no collector there")}
	close(out.letGo)
	q := newQueue(out, batchEvery, slog.New(slog.NewTextHandler(&log, nil)))
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(q))
	for range 3 {
		_, s := p.Tracer("").Start(t.Context(), "s")
		s.End()
		if err := q.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if q.failed.Load() != 3 || strings.Count(log.String(), "no collector there") != 1 {
		t.Errorf("%d failed, log %s", q.failed.Load(), log.String())
	}
}

// script is a collector in memory that answers with one status after another.
type script struct {
	statuses []int
	header   http.Header
	at       []time.Duration
	began    time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	status := s.statuses[min(len(s.at), len(s.statuses)-1)]
	s.at = append(s.at, time.Since(s.began).Truncate(time.Second))
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: s.header, Body: io.NopCloser(strings.NewReader("\x00why"))}, nil
}

// TestABatchIsTriedAgain after answers that may pass, and no other.
func TestABatchIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []int
		header   http.Header
		tries    int
		fails    bool
	}{
		"taken":                               {statuses: []int{200}, tries: 1},
		"down for a moment":                   {statuses: []int{503, 502, 200}, tries: 3},
		"down":                                {statuses: []int{503}, tries: 4, fails: true},
		"asks for a time that we do not have": {statuses: []int{429}, header: http.Header{"Retry-After": {"999999999"}}, tries: 1, fails: true},
		"asks for a time":                     {statuses: []int{429, 200}, header: http.Header{"Retry-After": {"3"}}, tries: 2},
		"refuses":                             {statuses: []int{400}, tries: 1, fails: true},
		"redirects":                           {statuses: []int{307}, header: http.Header{"Location": {"https://other.example/"}}, tries: 1, fails: true},
		"hangs":                               {statuses: []int{0}, tries: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{statuses: c.statuses, header: c.header, began: time.Now()}
				client := newClient("http://collector.example", nil)
				client.http.Transport = s
				ctx, cancel := context.WithTimeout(t.Context(), sendTime)
				defer cancel()
				err := client.UploadTraces(ctx, nil)
				if failed := err != nil; failed != c.fails {
					t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
				}
				if len(s.at) != c.tries {
					t.Errorf("%s: tries at %v, want %d", name, s.at, c.tries)
				}
				if err != nil && strings.ContainsRune(err.Error(), 0) {
					t.Errorf("error %q", err)
				}
				if name == "asks for a time" && s.at[1] < 3*time.Second {
					t.Errorf("tries at %v", s.at)
				}
			})
		})
	}
}
