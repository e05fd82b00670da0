// Package metrics serves the metrics of `fedpost up` for Prometheus.
//
// Counters of recipients are those of the process's stats.Tally; queues and servers are those of
// GET /v1/stats. So /metrics, /v1/stats and the operator's page agree.
//
// No metric has a label that strangers can fill, such as the host.
//
// https://prometheus.io/docs/practices/naming/
package metrics

import (
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/tracing"
	"fedpost/internal/ledger/events"
	"fedpost/internal/ledger/stats"
)

// buckets are the upper bounds of attempts' durations in seconds. An attempt ends after 15 s,
// Sipher's after 45 s.
var buckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60}

// kinds are shown from the start, so that the first count is a rise.
var kinds = []string{"came_back", "dead", "exhausted", "faults", "limited", "probes", "rejected", "released"}

// Meter counts what happens in a process. It implements stats.Metrics.
type Meter struct {
	registry *prometheus.Registry
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	work     *prometheus.CounterVec
}

// New returns a meter of a process whose recipients tally counts.
func New(tally *stats.Tally) *Meter {
	m := &Meter{
		registry: prometheus.NewRegistry(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fedpost_attempts_total",
			Help: "Requests made to inboxes, by protocol and outcome: delivered, refused, retry, doubtful, unverified, throttled or gone.",
		}, []string{"protocol", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fedpost_attempt_duration_seconds", Buckets: buckets,
			Help: "How long requests to inboxes took, from dialling to the end of the answer.",
		}, []string{"protocol"}),
		work: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fedpost_work_total",
			Help: "Events beside attempts: dead, released, probes, exhausted (servers), rejected (messages that no worker can read), came_back (messages and deliveries that return after a fault of fedpost), faults (answers of the API of 500 or more that fedpost causes), limited (requests over FEDPOST_REQUESTS_PER_MINUTE).",
		}, []string{"kind"}),
	}
	for _, kind := range kinds {
		m.work.WithLabelValues(kind)
	}
	m.registry.MustRegister(m.attempts, m.duration, m.work, recipients{tally},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Attempted implements stats.Metrics.
func (m *Meter) Attempted(a activity.Activity, o outcome.Outcome, _ activity.State) {
	if o.Try != outcome.Made {
		return
	}
	m.attempts.WithLabelValues(string(a.Protocol), string(o.Class)).Inc()
	m.duration.WithLabelValues(string(a.Protocol)).Observe(o.Took.Seconds())
}

// Counted implements stats.Metrics. Counts that the Tally has, too, are taken from there.
func (m *Meter) Counted(name string, n int) {
	if !stats.Tallied(name) {
		m.work.WithLabelValues(snake(name)).Add(float64(n))
	}
}

// Traces adds the counts of spans.
func (m *Meter) Traces(counts func() tracing.Counts) {
	for result, of := range map[string]func(tracing.Counts) int64{
		"exported": func(c tracing.Counts) int64 { return c.Exported },
		"failed":   func(c tracing.Counts) int64 { return c.Failed },
		"dropped":  func(c tracing.Counts) int64 { return c.Dropped },
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fedpost_spans_total", ConstLabels: prometheus.Labels{"result": result},
			Help: "Spans of traces: exported to the collector, failed (the collector did not take them) or dropped (too many waited for it).",
		}, func() float64 { return float64(of(counts())) }))
	}
}

// Events adds how many events the process has recorded, by type.
func (m *Meter) Events(counts func() map[events.Kind]int64) {
	for _, kind := range events.Kinds {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fedpost_events_total", ConstLabels: prometheus.Labels{"type": string(kind)},
			Help: "Events that the process added to the feed, by type.",
		}, func() float64 { return float64(counts()[kind]) }))
	}
}

// snake writes CamelCase as Prometheus does: came_back.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// calls are the metrics of a Tally's counts that are not states of recipients.
var calls = map[string]*prometheus.Desc{
	stats.Duplicates: describe("fedpost_deduplication_hits_total", "Calls answered as duplicates."),
	stats.Fallbacks:  describe("fedpost_deduplication_fallbacks_total", "Calls whose deduplication key could not be looked up."),
	stats.Unrecorded: describe("fedpost_unrecorded_activities_total", "Activities accepted while the table was down."),
	stats.Revived:    describe("fedpost_revived_total", "Dead deliveries that were parked again because their server has recovered (REVIVE_WITHIN)."),
}

var became = describe("fedpost_recipients_total",
	"Recipients that were accepted or changed to a state. A recipient that is parked or retried several times counts each time.", "state")

// states are the counted states of recipients. Those that are cancelled or expire before an
// attempt are not counted.
var states = []string{
	stats.Accepted, string(activity.Retrying), string(activity.Parked), string(activity.Delivered), string(activity.Failed),
	string(activity.Dead), string(activity.Expired), string(activity.Redundant), string(activity.Superseded), string(activity.Cancelled),
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// recipients collects what a Tally has counted since the process began.
type recipients struct{ tally *stats.Tally }

func (c recipients) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector. Counters begin with 0, so that the first count is an
// increase.
func (c recipients) Collect(out chan<- prometheus.Metric) {
	totals := c.tally.Totals()
	for name, d := range calls {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(totals[name]))
		delete(totals, name)
	}
	delete(totals, stats.Attempts) // fedpost_attempts_total
	for _, state := range states {
		if _, ok := totals[state]; !ok {
			totals[state] = 0
		}
	}
	for state, n := range totals {
		out <- prometheus.MustNewConstMetric(became, prometheus.CounterValue, float64(n), state)
	}
}
