package awstest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// gap is a point that some servers get wrong. Which ones is asked of the server
// itself, by its plain API: a name would go on excusing a server that has
// learnt it, and would not excuse the next one that has not.
type gap[C any] struct {
	reason string
	cases  []string
	// has finds out. An error counts as no: then the case runs, and tells more.
	has func(ctx context.Context, client C) (bool, error)
}

// lacks returns why a case cannot pass. Each gap is probed at most once, when
// its first case asks.
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
