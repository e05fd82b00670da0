// Package metrics counts what happens to deliveries and prints the counts in
// CloudWatch's embedded metric format, a line of log from which CloudWatch makes
// metrics.
//
// A custom metric costs $0.30 a month for each combination of dimensions, so the metrics have none.
// The log line of each outcome and the registry have the host.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

// Names of the counters of this package. Other packages add their own.
const (
	Attempts  = "Attempts"  // requests made
	Delivered = "Delivered" // recipients whose server answered 2xx
	Failed    = "Failed"    // recipients whose server refused for good
	Retried   = "Retried"   // attempts that will be retried
	Throttled = "Throttled" // answers 429 or 503 with a pause
)

// Meter counts events. It implements the meters of packages deliver and
// healthcheck and is safe for concurrent use by the invocations of one process.
type Meter struct {
	namespace string
	out       io.Writer
	now       func() time.Time

	mu     sync.Mutex
	counts map[string]int
}

// New returns a meter that prints to out, in the given CloudWatch namespace.
func New(namespace string, out io.Writer, now func() time.Time) *Meter {
	return &Meter{namespace: namespace, out: out, now: now, counts: map[string]int{}}
}

func (m *Meter) Counted(name string, n int) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[name] += n
}

// Attempted counts an attempt and its outcome.
func (m *Meter) Attempted(_ activity.Activity, o outcome.Outcome, s activity.State) {
	if o.Try == outcome.Made {
		m.Counted(Attempts, 1)
	}
	if o.Class == outcome.Throttled {
		m.Counted(Throttled, 1)
	}
	switch s {
	case activity.Delivered:
		m.Counted(Delivered, 1)
	case activity.Failed:
		m.Counted(Failed, 1)
	case activity.Retrying:
		m.Counted(Retried, 1)
	}
}

// metric and directive are the format's description of the numbers in a line.
type metric struct {
	Name string
	Unit string
}

type directive struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []metric
}

// Flush prints the counts since the last Flush, if any, with the invocation's request id. Call it
// at the end of an invocation.
func (m *Meter) Flush(ctx context.Context) error {
	m.mu.Lock()
	counts := m.counts
	m.counts = map[string]int{}
	m.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	d := directive{Namespace: m.namespace, Dimensions: [][]string{{}}}
	now := m.now()
	line := map[string]any{
		"message": "counts of this invocation", "level": slog.LevelInfo.String(), "timestamp": now.UTC().Format(time.RFC3339Nano),
	}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		line["requestId"] = lc.AwsRequestID
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		d.Metrics = append(d.Metrics, metric{Name: name, Unit: "Count"})
		line[name] = counts[name]
	}
	line["_aws"] = map[string]any{"Timestamp": now.UnixMilli(), "CloudWatchMetrics": []directive{d}}
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("print metrics: %w", err)
	}
	// One write, so that lines do not mix.
	if _, err := m.out.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("print metrics: %w", err)
	}
	return nil
}
