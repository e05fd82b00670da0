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
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api/inside"
	"fedpost/internal/api/problem"
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

// OldestTransaction adds the age of the transaction that keeps PostgreSQL from removing dead rows.
func (m *Meter) OldestTransaction(age func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fedpost_database_oldest_transaction_seconds",
		Help: "Age of the transaction that keeps PostgreSQL from removing dead rows; the log names one that is older than two minutes.",
	}, func() float64 { return age().Seconds() }))
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

var (
	messages = describe("fedpost_queue_messages", "Messages in a queue: visible, in_flight or delayed.", "queue", "state")
	oldest   = describe("fedpost_queue_oldest_seconds", "Age of a queue's oldest message, if known; for SQS only CloudWatch knows it.", "queue")
	servers  = describe("fedpost_servers", "Servers that are not healthy, by phase; inbox counts healthy servers with inboxes that are down.", "phase")
	waiting  = describe("fedpost_waiting_deliveries", "Deliveries that wait for servers, counted once a minute; 10000 stands for as many or more.")
	hooks    = describe("fedpost_webhooks", "Webhooks by state: enabled, failing or disabled.", "state")
	rows     = describe("fedpost_outbox_rows", "Rows of the outbox by state, on PostgreSQL: waiting or refused.", "state")
	rowAge   = describe("fedpost_outbox_oldest_seconds", "Age of the oldest waiting row of the outbox, on PostgreSQL; 0 if there is none.")
	writable = describe("fedpost_writable", "1 if records can be written; 0 if not: nothing is then accepted, and GET /healthz says why.")
	readable = describe("fedpost_stats_up", "1 if queues and servers could be read; 0 if the table or a queue failed: their metrics are then missing.")
)

// phases are shown even if 0, so that alerts end.
var phases = []string{"unhealthy", "half-open", "recovering", "paused", "exhausted", "gone", "blocked", "inbox"}

// Handler serves the metrics to callers who may read GET /v1/stats, which it requests from the
// API with the caller's Bearer token.
func (m *Meter) Handler(api http.Handler, log *slog.Logger) http.Handler {
	lately := inside.Lately{Every: time.Minute, Now: time.Now}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		stats, err := lately.Stats(r.Context(), inside.Client(api, token))
		report := state{stats: stats}
		var p *client.Problem
		if errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden) {
			if err := (&problem.Problem{Problem: *p}).Write(w); err != nil {
				log.InfoContext(r.Context(), "the answer to a request for metrics was not sent", "error", err)
			}
			return
		}
		if report.known = err == nil; err != nil {
			log.ErrorContext(r.Context(), "queues and servers cannot be read; their metrics are missing", "error", err)
		}
		report.writable = inside.Client(api, token).Do(r.Context(), http.MethodGet, "/healthz", nil, nil) == nil
		now := prometheus.NewRegistry()
		now.MustRegister(report)
		promhttp.HandlerFor(prometheus.Gatherers{m.registry, now}, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError),
		}).ServeHTTP(w, r)
	})
}

// state collects queues and servers as GET /v1/stats shows them.
type state struct {
	known    bool
	writable bool
	stats    client.Stats
}

func (s state) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, out) }

func (s state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	if s.writable {
		gauge(writable, 1)
	} else {
		gauge(writable, 0)
	}
	if !s.known {
		gauge(readable, 0)
		return
	}
	gauge(readable, 1)
	for name, q := range s.stats.Queues {
		gauge(messages, q.Visible, string(name), "visible")
		gauge(messages, q.InFlight, string(name), "in_flight")
		gauge(messages, q.Delayed, string(name), "delayed")
		if q.Oldest != nil {
			gauge(oldest, *q.Oldest, string(name))
		}
	}
	for _, state := range []string{client.WebhookEnabled, client.WebhookFailing, client.WebhookDisabled} {
		gauge(hooks, s.stats.Webhooks[state], state)
	}
	if o := s.stats.Outbox; o != nil {
		gauge(rows, o.Waiting, "waiting")
		gauge(rows, o.Refused, "refused")
		gauge(rowAge, o.Oldest)
	}
	if w := s.stats.Waiting; w != nil {
		gauge(waiting, w.Count)
	}
	for _, phase := range phases {
		gauge(servers, s.stats.Servers[phase], phase)
	}
}
