package awstest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// gap is a rule of AWS that some local servers break. A probe finds out whether the
// server at hand breaks the rule. A list of servers' names would not do: a later version
// of a listed server may keep the rule, and an unlisted server may break it.
type gap[C any] struct {
	reason string
	cases  []string
	// has probes the server. If has fails, the gap counts as absent: the case runs,
	// and its failure tells more.
	has func(ctx context.Context, client C) (bool, error)
}

// lacks returns a function that says why a case cannot pass on the server, or "". Each
// gap is probed at most once, for the first case that asks.
func lacks[C any](t testing.TB, client C, gaps []gap[C]) func(name string) string {
	reasons := make(map[string]func() string)
	for _, g := range gaps {
		probe := sync.OnceValue(func() string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			found, err := g.has(ctx, client)
			if err != nil {
				t.Logf("probe whether the server %s: %v", g.reason, err)
			}
			if !found {
				return ""
			}
			return "it " + g.reason
		})
		for _, name := range g.cases {
			reasons[name] = probe
		}
	}
	return func(name string) string {
		if probe, ok := reasons[name]; ok {
			return probe()
		}
		return ""
	}
}

func casesOf[C any](gaps []gap[C]) []string {
	var all []string
	for _, g := range gaps {
		all = append(all, g.cases...)
	}
	return all
}
