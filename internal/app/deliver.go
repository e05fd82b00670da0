package app

import (
	"context"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/config"
	"fedpost/internal/app/topology"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/deliver/retry"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
)

// Deliver is the engine that functions/deliver runs.
func Deliver(c config.Deliver, p Ports) (*deliver.Engine, error) {
	pol, err := c.Retry.Build()
	if err != nil {
		return nil, err
	}
	hc, err := p.client(c.Outbound, c.Outbound.Timeout, outbound.MaxBody)
	if err != nil {
		return nil, err
	}
	who, err := c.SipherSecrets.Load(c.SipherIdentity)
	if err != nil {
		return nil, fmt.Errorf("identity in the Sipher network: %w", err)
	}
	federation, err := p.sipher(who, c.Sipher, c.Outbound)
	if err != nil {
		return nil, err
	}
	s := p.store()
	memory := &forms{}
	fediverse := activitypub.New(activitypub.Config{Keys: p.ring(), Client: hc, Forms: memory, Now: p.now()})
	rules := c.Circuit.Rules(pol.GiveUp)
	memory.engine = deliver.New(deliver.Config{
		Queues: func(n queue.Name) deliver.Queue { return p.Queue(n) },
		Ledger: s, Servers: s, Payloads: s, Worker: p.Alone,
		Routes: map[activity.Protocol]deliver.Route{
			activity.ActivityPub: {Policy: pol, Protocol: deliver.ProtocolFunc(
				func(ctx context.Context, a activity.Activity) deliver.Attempt {
					d := fediverse.Prepare(ctx, a)
					return func(ctx context.Context, t activity.Target, _ int) outcome.Outcome { return d.Attempt(ctx, t) }
				})},
			activity.Sipher: sipherRoute(federation, c),
		},
		DeadLetters: p.deadLetterWriter(c.Limits), Lot: p.lot(rules),
		Coalesce: p.coalesce(pol), Limiter: ratelimit.Limiter{Store: s, Now: p.now()},
		Rules: rules,
		Limits: deliver.Limits{
			InFlight: c.Concurrency.Deliveries, PerQueue: p.PerQueue, PerHost: c.Concurrency.PerHost, Attempt: c.Outbound.Timeout,
			MaxReceives: func(n queue.Name) int { return topology.Of(n).MaxReceives },
		},
		Log: p.Log, Meter: p.meter(p.tally()), Now: p.now(), Random: p.random(),
	})
	return memory.engine, nil
}

// sipherRoute has its own bounds, because the protocol has no rules: a server
// that hangs is tried for each of its jobs, and takes half of the places at most.
func sipherRoute(federation *sipher.Protocol, c config.Deliver) deliver.Route {
	return deliver.Route{
		Policy: retry.Sipher(), Attempt: sipher.Budget,
		InFlight: c.Sipher.Deliveries, PerHost: min(c.Concurrency.PerHost, max(1, c.Sipher.Deliveries/2)),
		KeepDelivered: sipher.KeepDelivered, KeepFailed: sipher.KeepFailed,
		Protocol: deliver.ProtocolFunc(func(_ context.Context, a activity.Activity) deliver.Attempt {
			return func(ctx context.Context, t activity.Target, n int) outcome.Outcome {
				return federation.Attempt(ctx, a, t, n)
			}
		}),
	}
}

func (p Ports) deadLetterWriter(l config.Limits) deadletter.Writer {
	return deadletter.Writer{Store: p.store(), Queues: p.sender, Keep: l.Retention}
}

func (p Ports) lot(r circuit.Rules) *parking.Lot {
	s := p.store()
	return &parking.Lot{Spots: s, Servers: s, Queues: p.sender, Rules: r, Now: p.now(), Random: p.random()}
}
