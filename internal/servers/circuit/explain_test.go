package circuit

import (
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

func TestAStateSaysInWordsWhyDeliveriesWait(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for want, s := range map[string]State{
		"connection refused since 09:11 UTC":                            {Phase: Unhealthy, Reason: outcome.ConnRefused, DownSince: at(-169 * time.Minute)},
		"its name does not resolve since 2026-11-13 12:00 UTC":          {Phase: Exhausted, Reason: outcome.DNS, DownSince: at(-7 * day)},
		"answered 500 since 11:00 UTC":                                  {Phase: Unhealthy, Why: "answered 500", Since: at(-time.Hour)},
		"one delivery is on trial; the fault before: no answer in time": {Phase: HalfOpen, Reason: outcome.Timeout},
		"back since 11:59 UTC; what waits is released step by step":     {Phase: Recovering, Since: at(-time.Minute)},
		"answered 429, until 12:30 UTC":                                 {Phase: Paused, Why: "answered 429", Until: at(30 * time.Minute)},
		"one delivery is on trial; the fault before: answered 429":      {Phase: Paused, Why: "answered 429", Until: at(-time.Minute), Throttles: 2, Parked: true},
		"paused, until it is resumed":                                   {Phase: Paused},
		"blocked, so this ends within a minute: spam":                   {Phase: Blocked, Why: "spam"},
		"gets 60 deliveries a minute":                                   {Phase: Healthy, Rate: 60},
		"accepts deliveries; this one waits to be released":             {Phase: Healthy},
		"no delivery accepted since 2026-11-19 23:00 UTC":               {Phase: Unhealthy, DownSince: at(-13 * time.Hour)},
	} {
		if got := s.Explain(now); got != want {
			t.Errorf("%+v:\n got %q\nwant %q", s, got, want)
		}
	}
}
