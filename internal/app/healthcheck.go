package app

import (
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/app/config"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/enqueue"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message/agenda"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/servers/ratelimit"
)

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
