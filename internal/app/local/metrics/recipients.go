package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"fedpost/internal/activity"
	"fedpost/internal/ledger/stats"
)

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
