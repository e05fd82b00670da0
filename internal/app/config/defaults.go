package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"fedpost/internal/deliver"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
)

// defaulter is a concern with defaults that packages of the domain define. All other defaults are
// in the settings' tags.
type defaulter interface{ defaults() }

// preset sets the domain's defaults. Parsing changes only settings whose variable is set.
func preset(concern reflect.Value) reflect.Value {
	if d, ok := concern.Interface().(defaulter); ok {
		d.defaults()
	}
	return concern
}

func (c *Circuit) defaults() {
	r := circuit.Default()
	*c = Circuit{
		Streak: r.OpenAfter, Share: r.OpenShare, Sample: r.OpenSample, Window: r.Window,
		First: r.CheckFirst, Step: r.CheckStep, Slow: r.CheckSlow, Ramp: r.RampEvery, MaxPause: r.MaxPause, Revive: r.Revive,
	}
}

func (c *Concurrency) defaults() {
	l := deliver.Limits{}.Complete()
	*c = Concurrency{Deliveries: l.InFlight, PerHost: l.PerHost, Probes: healthcheck.DefaultProbes}
}

func (l *Limits) defaults() {
	d := enqueue.Limits{}.Complete()
	*l = Limits{
		ActivityBytes: d.Body, Recipients: d.Inboxes, Batch: d.Batch, Delay: d.Delay, Retention: enqueue.DefaultRetention,
	}
}

func (e *Events) defaults() { e.Retention = events.Keep }

func (d *Deduplication) defaults() { d.TTL, d.Prefix = dedup.DefaultTTL, dedup.DefaultPrefix }

func (o *Outbound) defaults() { o.Timeout = deliver.Limits{}.Complete().Attempt }

func (s *Sipher) defaults() { s.Probes, s.Checks = peers.Concurrency, peers.MaxChecks }

// written is a default in the notation of settings.
func written(value any) string {
	d, ok := value.(time.Duration)
	if !ok {
		return fmt.Sprint(value)
	}
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
