package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"fedpost/internal/ledger/events"
)

var eventsTold = describe("fedpost_events_total", "Events that the process added to the feed, by type.", "type")

// told collects how many events a process has told since it began.
type told struct{ counts func() map[events.Kind]int64 }

// Describe implements prometheus.Collector.
func (c told) Describe(out chan<- *prometheus.Desc) { out <- eventsTold }

// Collect implements prometheus.Collector. Types that were never told are 0, so that the
// first one is a rise.
func (c told) Collect(out chan<- prometheus.Metric) {
	counts := c.counts()
	for _, kind := range events.Kinds {
		out <- prometheus.MustNewConstMetric(eventsTold, prometheus.CounterValue, float64(counts[kind]), string(kind))
	}
}
