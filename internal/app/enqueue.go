package app

import (
	"crypto/rand"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/app/config"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/sipher/crypto"
)

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
