package app

import (
	"context"
	"crypto/rand"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/api/operator"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/app/config"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/keys"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
	"fedpost/internal/store"
)

// tally returns the shared tally, or a new one.
func (p Ports) tally() *stats.Tally {
	if p.Tally != nil {
		return p.Tally
	}
	return p.NewTally()
}

func (p Ports) meter(t *stats.Tally) stats.Meter {
	return stats.Meter{Tally: t, Metrics: p.Metrics, Log: p.Log}
}

func (p Ports) NewTally() *stats.Tally { return stats.NewTally(p.store(), rand.Text(), p.now()) }

// BeginEvents makes the feed go on above all cursors of readers, after a restore: these may be
// above the numbers in the backup.
func (p Ports) BeginEvents(ctx context.Context) error { return p.store().BeginEventsAnew(ctx) }

func (p Ports) operating(c config.Enqueue, rules circuit.Rules, ring *keys.Ring, tally *stats.Tally) []api.Route {
	s, now := p.store(), p.now()
	known := &registry.Service{
		Hosts: s, Limits: ratelimit.Limiter{Store: s, Now: now}, Sipher: s.Sipher(), Webhooks: s.Webhooks,
		Rules: rules, Now: now,
	}
	deadLetters := deadletter.Current{Store: s, Ledger: s}
	reviver := deadletter.Reviver{Store: deadLetters, Queues: p.sender, Now: now}
	retrier := deadletter.Retrier{Ledger: s, Reviver: reviver}
	webhooks := webhook.Registry{
		Store: s, Sealer: p.Sealer, Tail: s.EventsEnd, Since: s.EventsSince, Hand: p.handOver, Now: now,
		Reopen: func(ctx context.Context, url string) error { return p.reopen(ctx, known.Rules, url) },
		View: func(ctx context.Context, id activity.ID) (webhook.Answer, error) {
			v, err := activities{s, now}.View(ctx, id, ledger.RecipientFilter{}, "", 1)
			if err != nil || len(v.Recipients) == 0 {
				return webhook.Answer{State: activity.Queued}, err
			}
			one := v.Recipients[0]
			return webhook.Answer{State: one.State, Status: one.LastStatus, Err: one.LastError, Response: one.Response}, nil
		},
	}
	return operator.Routes(operator.Services{
		Activities: activities{s, now}, Keys: ring, Servers: known, Lots: s,
		Queues: func(n queue.Name) operator.Queue { return p.Queue(n) }, Counts: s, Tally: tally,
		Forgetter:   deadletter.Forgetter{Ledger: s, Parked: s, Store: s, Now: now},
		DeadLetters: deadLetters, Failed: deadletter.FailedRetrier{Retrier: retrier, Feed: s},
		Webhooks: webhooks, PlainHTTP: p.AllowPrivate || c.Outbound.PlainHTTP,
		Events: events.Feed{Store: s, Notifier: p.Notifier}, Follows: s.Sipher(), Outbox: p.Rows, Now: now,
	})
}

// activities serves the API's view of activities from the ledger.
type activities struct {
	*store.Store
	now func() time.Time
}

// View implements api.Activities.
func (a activities) View(ctx context.Context, id activity.ID, f ledger.RecipientFilter, cursor string, limit int) (ledger.View, error) {
	v, err := ledger.SelectView(ctx, a.Store, id, f, cursor, limit, a.now())
	if err != nil {
		return v, err
	}
	return v, ledger.Explain(ctx, a.Store, v.Recipients, a.now())
}
