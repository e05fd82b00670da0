package tracing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"fedpost/internal/activity/outcome"
)

// client posts spans to a collector. OpenTelemetry's own client links gRPC, which is too large for
// Lambda functions (docs/decisions.md).
// https://opentelemetry.io/docs/specs/otlp/#otlphttp
type client struct {
	url     string
	headers map[string]string
	http    *http.Client
}

var _ otlptrace.Client = (*client)(nil)

func newClient(endpoint string, headers map[string]string) *client {
	return &client{
		url: strings.TrimRight(endpoint, "/") + "/v1/traces", headers: headers,
		http: &http.Client{
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// The headers may hold a token, which is for the collector alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (c *client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// tries of a batch, within the context's time.
const (
	tries     = 4
	firstWait = 500 * time.Millisecond
)

// UploadTraces implements otlptrace.Client. It retries after the answers for which the protocol
// says so, and without an answer.
// https://opentelemetry.io/docs/specs/otlp/#otlphttp-response
func (c *client) UploadTraces(ctx context.Context, all []*trace.ResourceSpans) error {
	// TracesData has the encoding of ExportTraceServiceRequest, without gRPC.
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: all})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	for n := range tries {
		var wait time.Duration
		if wait, err = c.post(ctx, body); err == nil || wait < 0 {
			return err
		}
		if n == tries-1 {
			break
		}
		// With jitter, so that processes do not retry together.
		wait = max(wait, firstWait<<n) + rand.N(firstWait)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
	return err
}

// never is the wait after a failure that is not retried.
const never = -1

// post makes one try. After an error, wait is how long the collector asks to wait, or never.
func (c *client) post(ctx context.Context, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return never, err
	}
	r.Header.Set("User-Agent", "fedpost")
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	res, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	const most = 64 << 10
	said, err := io.ReadAll(io.LimitReader(res.Body, most))
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return 0, nil // the answer's body does not matter
	case err != nil:
		said = nil
	}
	err = errors.New(cmp.Or(outcome.Clean(fmt.Sprintf("the collector answered %d %s", res.StatusCode, said), 300), res.Status))
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, bad := strconv.Atoi(res.Header.Get("Retry-After"))
		if bad != nil || seconds < 0 {
			return 0, err
		}
		return time.Duration(min(seconds, 3600)) * time.Second, err
	}
	return never, err
}
