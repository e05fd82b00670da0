package app

import (
	"fmt"
	"time"

	"fedpost/internal/app/config"
	"fedpost/internal/app/topology"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
)

func Deliver(c config.Deliver, p Ports) (*deliver.Engine, error) {
	p.keepEvents = c.Events.Retention
	pol, err := c.Retry.Build()
	if err != nil {
		return nil, err
	}
	who, err := c.SipherSecrets.Load(c.SipherIdentity)
	if err != nil {
		return nil, fmt.Errorf("identity in the Sipher network: %w", err)
	}
	s := p.store()
	rules := c.Circuit.Rules(pol.GiveUp)
	hosts := cache.New(s, rules, cache.TTL, p.now(), p.Log)
	protocols, err := p.protocols(federation{
		outbound: c.Outbound, sipher: c.Sipher, identity: who, policy: pol, perHost: c.Concurrency.PerHost, hosts: hosts,
	})
	if err != nil {
		return nil, err
	}
	return deliver.New(deliver.Config{
		Ports: intake.Ports{
			Queues: func(n queue.Name) deliver.Queue { return p.Queue(n) },
			Ledger: s, Agenda: s, Payloads: s, Protocols: protocols, Log: p.Log, Now: p.now(), Random: p.random(),
		},
		Servers: s, Hosts: hosts, Events: s, Writable: s.Writable, Worker: p.Alone,
		DeadLetters: p.deadLetterWriter(c.Limits), Lot: p.lot(rules),
		Coalesce: p.coalesce(pol, rules), Limiter: &ratelimit.Limiter{Store: s, Now: p.now()},
		Rules: rules,
		Limits: deliver.Limits{
			InFlight: c.Concurrency.Deliveries, PerQueue: p.PerQueue, PerHost: c.Concurrency.PerHost, Attempt: c.Outbound.Timeout,
			MaxReceives: func(n queue.Name) int { return topology.Of(n).MaxReceives },
			Flush:       p.Flush,
			Quiet:       p.quiet(),
		},
		Meter: p.meter(p.tally()), Trace: p.Trace,
	}), nil
}

// quiet is deliver.Limits.Quiet: a second, in a process that lives on between invocations.
func (p Ports) quiet() time.Duration {
	if p.PerQueue == 0 {
		return 0
	}
	return time.Second
}

func (p Ports) deadLetterWriter(l config.Limits) deadletter.Writer {
	return deadletter.Writer{Store: p.store(), Queues: p.sender, Keep: l.Retention}
}

func (p Ports) lot(r circuit.Rules) *parking.Lot {
	s := p.store()
	return &parking.Lot{Store: s, Servers: s, Queues: p.sender, Rules: r, Now: p.now(), Random: p.random(), Log: p.Log}
}

// rememberDelivered is how long fedpost remembers the last delivery to an inbox. After that an
// unchanged update is sent once more.
const rememberDelivered = 30 * 24 * time.Hour

// coalesce skips deliveries that a newer activity supersedes, for requests that ask for it.
func (p Ports) coalesce(policy retry.Policy, rules circuit.Rules) *coalesce.Filter {
	return &coalesce.Filter{Store: p.store(), Now: p.now(), Pending: rules.Longest(policy.GiveUp), Remember: rememberDelivered}
}
