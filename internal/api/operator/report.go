package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/api/problem"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol/sipher/follow"
)

// Queue counts its messages.
type Queue interface {
	Depth(ctx context.Context) (queue.Depth, error)
}

// aged is a queue that knows when its oldest message was sent; zero if it is empty.
type aged interface {
	Oldest(ctx context.Context) (time.Time, error)
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

// report returns a report with the counts of a number of days, up to today.
func (h handlers) report(ctx context.Context, days int) (client.Stats, error) {
	now := h.Now()
	r := client.Stats{At: now.UTC(), Counts: map[string]int{}, Servers: map[string]int{}, Webhooks: map[string]int{}, Unhealthy: []client.Trouble{}}
	if err := h.Tally.Settle(ctx); err != nil {
		return client.Stats{}, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		r.Queues, err = h.depths(gctx, now)
		return err
	})
	g.Go(func() (err error) {
		r.Days, err = h.days(gctx, now, days)
		return err
	})
	g.Go(func() error {
		last, err := h.seen.get(gctx, func(r *client.Stats) error { return h.trouble(gctx, r) })
		r.Servers, r.Unhealthy, r.More = last.Servers, last.Unhealthy, last.More
		return err
	})
	g.Go(func() error { return h.depthOfOutbox(gctx, &r) })
	g.Go(func() error {
		all, err := h.Webhooks.Webhooks(gctx)
		for _, w := range all {
			r.Webhooks[stateOf(w)]++
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return client.Stats{}, err
	}
	for _, name := range always {
		r.Counts[name] = 0
	}
	for _, d := range r.Days {
		stats.Counts(r.Counts).Add(d.Counts)
	}
	return r, nil
}

func (h handlers) depthOfOutbox(ctx context.Context, r *client.Stats) error {
	if h.Outbox == nil {
		return nil
	}
	d, err := h.Outbox.Depth(ctx)
	r.Outbox = &client.OutboxDepth{Waiting: d.Waiting, Refused: d.Refused}
	if !d.Oldest.IsZero() {
		r.Outbox.Oldest = max(0, int(r.At.Sub(d.Oldest).Seconds()))
	}
	return err
}

func (h handlers) depths(ctx context.Context, now time.Time) (map[string]client.QueueDepth, error) {
	all := make([]client.QueueDepth, len(queue.Names))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range queue.Names {
		g.Go(func() error {
			q := h.Queues(name)
			d, err := q.Depth(ctx)
			if err != nil {
				return fmt.Errorf("depth of queue %s: %w", name, err)
			}
			all[i] = client.QueueDepth{Visible: d.Visible, InFlight: d.InFlight, Delayed: d.Delayed}
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
	byName := make(map[string]client.QueueDepth, len(all))
	for i, name := range queue.Names {
		byName[string(name)] = all[i]
	}
	return byName, nil
}

func (h handlers) days(ctx context.Context, now time.Time, n int) ([]client.Day, error) {
	days := make([]client.Day, n)
	g, ctx := errgroup.WithContext(ctx)
	for i := range days {
		g.Go(func() error {
			day := stats.Day(now.AddDate(0, 0, i+1-n))
			counts, err := h.Counts.CountsOf(ctx, day)
			days[i] = client.Day{Day: day, Counts: counts}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	return days, nil
}

// lastTrouble is the last answer of handlers.trouble. With 20,000 servers that are down one takes a
// second of the processor, and monitors and pages that ask all the time must not delay
// deliveries. So an answer is used for troubleShare times as long as it took, and oldTrouble at most.
type lastTrouble struct {
	lock   chan struct{} // of one element: who waits for it may go away
	until  time.Time
	report client.Stats
}

const (
	troubleShare = 10
	oldTrouble   = 30 * time.Second
)

func (l *lastTrouble) get(ctx context.Context, look func(*client.Stats) error) (client.Stats, error) {
	select {
	case l.lock <- struct{}{}:
		defer func() { <-l.lock }()
	case <-ctx.Done():
		return client.Stats{}, ctx.Err()
	}
	begin := time.Now()
	if !begin.After(l.until) {
		return l.report, nil
	}
	r := client.Stats{Servers: map[string]int{}, Unhealthy: []client.Trouble{}}
	if err := look(&r); err != nil {
		return client.Stats{}, err
	}
	end := time.Now()
	l.report, l.until = r, end.Add(min(troubleShare*end.Sub(begin), oldTrouble))
	return r, nil
}

// trouble counts the servers that are not healthy and lists the worst.
func (h handlers) trouble(ctx context.Context, r *client.Stats) error {
	var ill []client.Server
	for seen, cursor := 0, ""; ; {
		page, next, err := h.Servers.List(ctx, registry.Filter{}, cursor, serverPage)
		if err != nil {
			return err
		}
		for _, v := range page {
			if v.Phase != client.PhaseHealthy {
				ill = append(ill, v)
			}
		}
		if cursor = next; next == "" {
			break
		}
		if seen += len(page); seen >= mostServers {
			r.More = true
			break
		}
	}
	slices.SortFunc(ill, func(a, b client.Server) int {
		return cmp.Or(downSince(a).Compare(downSince(b)), strings.Compare(a.Name, b.Name))
	})
	for _, host := range client.ByHost(ill) {
		count(r, host)
	}
	slices.SortStableFunc(r.Unhealthy, func(a, b client.Trouble) int { return a.DownSince.Compare(b.DownSince) })
	r.Unhealthy = r.Unhealthy[:min(len(r.Unhealthy), mostListed)]
	return nil
}

// isDown reports whether deliveries to v fail or wait because of v.
func isDown(v client.Server) bool {
	return v.Phase == client.PhaseUnhealthy || v.Phase == client.PhaseHalfOpen || v.Phase == client.PhaseExhausted
}

func downSince(v client.Server) time.Time {
	if v.DownSince.IsZero() {
		return v.Since
	}
	return v.DownSince
}

// count counts a host once, by its own phase or, if the host itself is healthy, as one with inboxes
// that are down.
func count(r *client.Stats, h client.Hosted) {
	inboxes := slices.DeleteFunc(slices.Clone(h.Inboxes), func(v client.Server) bool { return !isDown(v) })
	var v client.Server
	switch {
	case h.Own != nil:
		v = *h.Own
		r.Servers[string(v.Phase)]++
	case len(inboxes) > 0:
		v = inboxes[0]
		r.Servers["inbox"]++
	default:
		r.Servers[string(h.Inboxes[0].Phase)]++
		return
	}
	if !isDown(v) && len(inboxes) > 0 {
		v = inboxes[0]
	}
	if isDown(v) {
		r.Unhealthy = append(r.Unhealthy, client.Trouble{
			Server: v.Name, Host: v.Host, KeyID: v.KeyID, Inboxes: len(inboxes), Protocol: v.Protocol, Phase: v.Phase, DownSince: downSince(v), Reason: v.Reason, Why: v.Why,
		})
	}
}

// waiting counts the deliveries that wait for any host or inbox, up to mostCounted.
func (h handlers) waiting(ctx context.Context) (*client.WaitingInAll, error) {
	w := &client.WaitingInAll{}
	for cursor, seen := "", 0; ; {
		page, next, err := h.Servers.Hosts.ListServers(ctx, cursor, serverPage)
		if err != nil {
			return nil, fmt.Errorf("count what waits: %w", err)
		}
		for _, state := range page {
			if !state.Parked {
				continue
			}
			n, err := h.Lots.CountParked(ctx, state.Key, mostCounted+1-w.Count)
			if err != nil {
				return nil, err
			}
			if w.Count += n; w.Count > mostCounted {
				return &client.WaitingInAll{Count: mostCounted, AtLeast: true}, nil
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

func (h handlers) showStats(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "days", "waiting")
	days, count := q.Number("days", 1, 1, MostDays), q.Flag("waiting")
	if err := q.Check(); err != nil {
		return nil, err
	}
	report, err := h.report(r.Context(), days)
	if err == nil && count {
		report.Waiting, err = h.waiting(r.Context())
	}
	return report, err
}

// period is the time that a history covers.
type period string

// periods are the steps of each period, for a chart.
var periods = map[period]struct {
	step  time.Duration
	steps int
}{"hour": {time.Minute, 60}, "day": {15 * time.Minute, 96}}

func (h handlers) showHistory(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "period")
	of := periods[cmp.Or(api.Choice(q, "period", period("hour"), "day"), "hour")]
	if err := q.Check(); err != nil {
		return nil, err
	}
	series, ok := h.Tally.Series(of.step, of.steps)
	if !ok {
		return nil, problem.Typed(http.StatusNotFound, "no-history", "No history",
			"On AWS fedpost keeps no history. Use the CloudWatch dashboard with the name of the stack.")
	}
	return client.History{From: series.From, StepSeconds: int(series.Step.Seconds()), Since: series.Since, Counts: series.Counts}, nil
}

// Follows are the follows that were announced to Sipher servers.
type Follows interface {
	Follows(ctx context.Context, cursor string, limit int) (fs []follow.Follow, next string, err error)
}

func (h handlers) listFollows(r *http.Request) (any, error) {
	q, limit := api.ReadPage(r, api.UsualPage, api.MostPage)
	if err := q.Check(); err != nil {
		return nil, err
	}
	fs, next, err := h.Follows.Follows(r.Context(), q.Get("cursor"), limit)
	shown := api.Each(fs, func(f follow.Follow) client.Follow { return client.Follow(f) })
	return client.Follows{Follows: shown, NextCursor: next}, err
}
