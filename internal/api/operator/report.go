package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
)

// Queue counts its messages.
type Queue interface {
	Depth(ctx context.Context) (queue.Depth, error)
}

// aged is a queue that can tell when its oldest message was sent; zero if it has
// none.
type aged interface {
	Oldest(ctx context.Context) (time.Time, error)
}

// Reporter makes reports. A report needs no counters of its own: queues count their
// messages, servers are listed, and package stats counts recipients by state.
type Reporter struct {
	Queues  func(queue.Name) Queue
	Store   stats.Store
	Servers *registry.Service
	// Spots and Circuits tell how many deliveries wait for servers.
	Spots    Spots
	Circuits circuit.Store
	// Webhooks lists the webhooks.
	Webhooks webhook.Store
	// Tally of this process, which is written before the counts are read.
	Tally *stats.Tally
	Now   func() time.Time
}

// Bounds of a report.
const (
	// MostDays is how far back counts go.
	MostDays    = 31
	mostServers = 20_000
	serverPage  = 1000
	mostListed  = 20
)

// always lists the counts that a report shows even if they are 0.
var always = []string{stats.Accepted, stats.Attempts, string(activity.Delivered), string(activity.Failed), string(activity.Dead), stats.Duplicates, stats.Fallbacks}

// Report returns the state of things, with the counts of a number of days, of
// which today is the last.
func (s *Reporter) Report(ctx context.Context, days int) (contract.Stats, error) {
	now := s.Now()
	r := contract.Stats{At: now.UTC(), Counts: map[string]int{}, Servers: map[string]int{}, Webhooks: map[string]int{}, Unhealthy: []contract.Trouble{}}
	if err := s.Tally.Settle(ctx); err != nil {
		return contract.Stats{}, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		r.Queues, err = s.depths(gctx, now)
		return err
	})
	g.Go(func() (err error) {
		r.Days, err = s.days(gctx, now, days)
		return err
	})
	g.Go(func() error { return s.trouble(gctx, &r) })
	g.Go(func() error {
		all, err := s.Webhooks.Webhooks(gctx)
		for _, w := range all {
			r.Webhooks[stateOf(w)]++
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return contract.Stats{}, err
	}
	for _, name := range always {
		r.Counts[name] = 0
	}
	for _, d := range r.Days {
		stats.Counts(r.Counts).Add(d.Counts)
	}
	return r, nil
}

func (s *Reporter) depths(ctx context.Context, now time.Time) (map[queue.Name]contract.QueueDepth, error) {
	all := make([]contract.QueueDepth, len(queue.Names))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range queue.Names {
		g.Go(func() error {
			q := s.Queues(name)
			d, err := q.Depth(ctx)
			if err != nil {
				return fmt.Errorf("depth of queue %s: %w", name, err)
			}
			all[i] = contract.QueueDepth{Visible: d.Visible, InFlight: d.InFlight, Delayed: d.Delayed}
			a, ok := q.(aged)
			if !ok {
				return nil
			}
			oldest, err := a.Oldest(ctx)
			if err != nil {
				return fmt.Errorf("age of queue %s: %w", name, err)
			}
			age := 0
			if !oldest.IsZero() {
				age = max(0, int(now.Sub(oldest).Seconds()))
			}
			all[i].Oldest = &age
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	byName := make(map[queue.Name]contract.QueueDepth, len(all))
	for i, name := range queue.Names {
		byName[name] = all[i]
	}
	return byName, nil
}

func (s *Reporter) days(ctx context.Context, now time.Time, n int) ([]contract.Day, error) {
	days := make([]contract.Day, n)
	g, ctx := errgroup.WithContext(ctx)
	for i := range days {
		g.Go(func() error {
			day := stats.Day(now.AddDate(0, 0, i+1-n))
			counts, err := s.Store.CountsOf(ctx, day)
			days[i] = contract.Day{Day: day, Counts: counts}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	return days, nil
}

// trouble counts the servers that are not healthy and lists the worst.
func (s *Reporter) trouble(ctx context.Context, r *contract.Stats) error {
	seen, cursor := 0, ""
	for {
		page, next, err := s.Servers.List(ctx, registry.Filter{}, cursor, serverPage)
		if err != nil {
			return err
		}
		for _, v := range page {
			note(r, v)
		}
		if cursor = next; next == "" {
			break
		}
		if seen += len(page); seen >= mostServers {
			r.More = true
			break
		}
	}
	slices.SortFunc(r.Unhealthy, func(a, b contract.Trouble) int {
		return cmp.Or(a.DownSince.Compare(b.DownSince), strings.Compare(a.Server, b.Server))
	})
	r.Unhealthy = r.Unhealthy[:min(len(r.Unhealthy), mostListed)]
	return nil
}

func note(r *contract.Stats, v contract.Server) {
	if v.Phase == circuit.Healthy {
		return
	}
	kind := string(v.Phase)
	if registry.IsInbox(v) {
		kind = "inbox"
	}
	r.Servers[kind]++
	switch v.Phase {
	case circuit.Unhealthy, circuit.HalfOpen, circuit.Exhausted:
		since := v.DownSince
		if since.IsZero() {
			since = v.Since
		}
		r.Unhealthy = append(r.Unhealthy, contract.Trouble{
			Server: v.Name, Protocol: v.Protocol, Phase: v.Phase, DownSince: since, Reason: v.Reason, Why: v.Why,
		})
	}
}

// waiting counts the deliveries that wait for any host or inbox, up to mostCounted. Only
// those whose state says so are looked at.
func (s *Reporter) waiting(ctx context.Context) (*contract.WaitingInAll, error) {
	w := &contract.WaitingInAll{}
	for cursor, seen := "", 0; ; {
		page, next, err := s.Circuits.ListServers(ctx, cursor, serverPage)
		if err != nil {
			return nil, fmt.Errorf("count what waits: %w", err)
		}
		for _, state := range page {
			if !state.Parked {
				continue
			}
			n, err := s.Spots.CountParked(ctx, state.Key, mostCounted+1-w.Count)
			if err != nil {
				return nil, err
			}
			if w.Count += n; w.Count > mostCounted {
				return &contract.WaitingInAll{Count: mostCounted, AtLeast: true}, nil
			}
		}
		cursor, seen = next, seen+len(page)
		switch {
		case next == "":
			return w, nil
		case seen >= mostServers:
			w.AtLeast = true
			return w, nil
		}
	}
}
