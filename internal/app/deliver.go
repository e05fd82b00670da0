package app

import (
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/app/config"
	"fedpost/internal/app/topology"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/servers/cache"
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
	rules := c.Circuit.Rules(pol.GiveUp)
	hosts := cache.New(s, rules, cache.TTL, p.now(), p.Log)
	fediverse := activitypub.New(activitypub.Config{Keys: p.ring(), Client: hc, Forms: hosts, Now: p.now()})
	return deliver.New(deliver.Config{
		Queues: func(n queue.Name) deliver.Queue { return p.Queue(n) },
		Ledger: s, Servers: s, Hosts: hosts, Payloads: s, Worker: p.Alone,
		Protocols: protocol.Set{
			{Name: activity.ActivityPub, Delivery: protocol.Delivery{Sender: fediverse, Policy: pol}},
			{Name: activity.Sipher, Delivery: sipherDelivery(federation, c)},
		},
		DeadLetters: p.deadLetterWriter(c.Limits), Lot: p.lot(rules),
		Coalesce: p.coalesce(pol), Limiter: ratelimit.Limiter{Store: s, Now: p.now()},
		Rules: rules,
		Limits: deliver.Limits{
			InFlight: c.Concurrency.Deliveries, PerQueue: p.PerQueue, PerHost: c.Concurrency.PerHost, Attempt: c.Outbound.Timeout,
			MaxReceives: func(n queue.Name) int { return topology.Of(n).MaxReceives },
		},
		Log: p.Log, Meter: p.meter(p.tally()), Now: p.now(), Random: p.random(),
	}), nil
}

// sipherDelivery has its own bounds, because the protocol has no rules: a server
// that hangs is tried for each of its jobs, and takes half of the places at most.
func sipherDelivery(federation *sipher.Protocol, c config.Deliver) protocol.Delivery {
	return protocol.Delivery{
		Sender: federation, Policy: retry.Sipher(), Attempt: sipher.Budget,
		InFlight: c.Sipher.Deliveries, PerHost: min(c.Concurrency.PerHost, max(1, c.Sipher.Deliveries/2)),
		KeepDelivered: sipher.KeepDelivered, KeepFailed: sipher.KeepFailed,
	}
}

func (p Ports) deadLetterWriter(l config.Limits) deadletter.Writer {
	return deadletter.Writer{Store: p.store(), Queues: p.sender, Keep: l.Retention}
}

func (p Ports) lot(r circuit.Rules) *parking.Lot {
	s := p.store()
	return &parking.Lot{Spots: s, Servers: s, Queues: p.sender, Rules: r, Now: p.now(), Random: p.random()}
}
