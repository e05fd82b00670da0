package app

import (
	"crypto/rand"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/app/config"
	"fedpost/internal/app/topology"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger/events"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/message/agenda"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher/crypto"
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

// quiet is deliver.Limits.Quiet: a second, in a process that outlives its invocations.
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

// API is the HTTP interface that functions/enqueue serves. If access has tokens, requests need
// one; on AWS access is empty, and IAM decides.
func API(c config.Enqueue, access config.Access, p Ports) (*api.API, error) {
	p.keepEvents = c.Events.Retention
	keys := p.ring()
	// The API shows our identity and signs nothing with it.
	who, err := c.SipherIdentity.Load()
	if err != nil {
		return nil, fmt.Errorf("identity in the Sipher network: %w", err)
	}
	pol, err := c.Retry.Build()
	if err != nil {
		return nil, err
	}
	protocols, err := p.protocols(federation{
		outbound: c.Outbound, sipher: c.Sipher, identity: crypto.Identity{Public: who}, policy: pol,
	})
	if err != nil {
		return nil, err
	}
	tally, rules := p.tally(), c.Circuit.Rules(pol.GiveUp)
	return api.New(api.Options{
		Enqueuer: p.enqueuer(c, protocols, p.coalesce(pol, rules), keys, p.meter(tally)), Keys: keys,
		Activities: activities{p.store(), p.now()}, Protocols: protocols, Routes: append(p.operating(c, rules, keys, tally), public(protocols)...), Refuses: p.addresses(c.Outbound).Refuses,
		Tokens: api.Tokens{Send: access.Send, App: access.App, Read: access.Read, Operate: access.Token}, RequestsPerMinute: access.RequestsPerMinute, Writable: p.store().Writable, Now: p.now(), RequestID: rand.Text,
		Counted: p.meter(tally).Counted, Trace: p.Trace, Log: p.Log,
	}), nil
}

// public returns the routes that protocols serve to other servers.
func public(s protocol.Set) (all []api.Route) {
	for _, p := range s {
		for pattern, h := range p.Public {
			all = append(all, api.Route{Pattern: pattern, Handler: h, Public: true})
		}
	}
	return all
}

func (p Ports) enqueuer(c config.Enqueue, protocols protocol.Set, coalescer enqueue.Coalescer, keys enqueue.Keys, meter stats.Meter) *enqueue.Service {
	s := p.store()
	return enqueue.New(enqueue.Options{
		Protocols: protocols,
		Queues:    p.senders(), Ledger: s, Payloads: s, Agenda: s, Keys: keys,
		Markers: dedup.New(s, dedup.Options{
			TTL: c.Deduplication.TTL, Prefix: c.Deduplication.Prefix, Fallback: dedup.Fallback(c.Deduplication.Fallback),
			Alone: p.Alone, Counted: meter.Counted, Now: p.now(), Entropy: rand.Reader, Log: p.Log,
		}),
		Coalescer: coalescer, Meter: meter, Trace: p.Trace,
		Limits: enqueue.Limits{
			Body: c.Limits.ActivityBytes, Inboxes: c.Limits.Recipients, Batch: c.Limits.Batch, Delay: c.Limits.Delay,
		},
		Retention:  c.Limits.Retention,
		Priorities: c.Priorities.ByType(), Priority: activity.Priority(c.Priorities.Default),
		Now: p.now(), Entropy: rand.Reader, Log: p.Log,
	})
}

const probeTimeout = 8 * time.Second

// HealthCheck is the scheduled work that functions/healthcheck runs.
func HealthCheck(c config.HealthCheck, p Ports) (*healthcheck.Runner, error) {
	p.keepEvents = c.Events.Retention
	pol, err := c.Retry.Build()
	if err != nil {
		return nil, err
	}
	hc, err := p.client(c.Outbound, nil, probeTimeout, outbound.MaxBody)
	if err != nil {
		return nil, err
	}
	// Checks do not need our identity.
	protocols, err := p.protocols(federation{outbound: c.Outbound, sipher: c.Sipher, policy: pol})
	if err != nil {
		return nil, err
	}
	circuit := c.Circuit.Rules(pol.GiveUp)
	s := p.store()
	aside := deadletter.Aside{
		Writer: deadletter.Writer{Store: s, Queues: p.sender, Keep: deadletter.Longest}, Ledger: s, Payloads: s, Now: p.now(), Events: s,
		About: func(a activity.Activity) events.About { return intake.About(protocols, a) },
	}
	lot := p.lot(circuit)
	dead := deadletter.Returner{Store: s, Ledger: s, Lot: lot, Log: p.Log, GiveUp: protocols.GiveUp}
	superseding := enqueue.Superseding{Coalescer: p.coalesce(pol, circuit), Payloads: s, Log: p.Log}
	return healthcheck.New(healthcheck.Config{
		Servers: s, Events: s, Forward: p.forward(), Lot: lot, Dead: dead,
		Prober:    prober{healthcheck.NodeInfo{Client: hc, AllowHTTP: p.AllowPrivate || c.Outbound.PlainHTTP}, s.OfWebhook},
		Agenda:    &agenda.Releaser{Store: s, Queues: p.senders(), Released: superseding.Released, SetAside: aside.SetAside, Log: p.Log},
		Protocols: protocols, Limits: ratelimit.Limiter{Store: s, Now: p.now()},
		Rules: circuit, Log: p.Log, Meter: p.meter(p.tally()), Now: p.now(), ProbeTimeout: probeTimeout, Probes: c.Concurrency.Probes,
	}), nil
}
