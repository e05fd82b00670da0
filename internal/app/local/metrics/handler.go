package metrics

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fedpost/client"
	"fedpost/internal/api/inside"
	"fedpost/internal/api/problem"
)

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
