package app

import (
	"crypto/rand"
	"fmt"

	"fedpost/internal/app/config"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/cache"
)

type federation struct {
	outbound config.Outbound
	sipher   config.Sipher
	// identity is our identity in the Sipher network, with the keys that the function uses.
	identity crypto.Identity
	policy   retry.Policy
	// perHost is how many attempts to one host may be under way.
	perHost int
	// hosts holds the states of hosts; nil in a function that sends no
	// deliveries.
	hosts *cache.Hosts
}

// protocols registers all protocols, the default first.
func (p Ports) protocols(f federation) (protocol.Set, error) {
	var s protocol.Set
	for _, register := range []func(federation) (protocol.Protocol, error){p.activityPub, p.sipher, p.webhooks} {
		one, err := register(f)
		if err != nil {
			return nil, err
		}
		s = append(s, one)
	}
	return s, nil
}

func (p Ports) activityPub(f federation) (protocol.Protocol, error) {
	if f.hosts == nil {
		return activitypub.Register(nil, f.policy), nil
	}
	hc, err := p.client(f.outbound, f.hosts, f.outbound.Timeout, outbound.MaxBody)
	if err != nil {
		return protocol.Protocol{}, err
	}
	sender := &activitypub.Protocol{Keys: p.ring(), Client: hc, Forms: f.hosts, Now: p.now(), Date: p.date()}
	return activitypub.Register(sender, f.policy), nil
}

// sipher registers the Sipher protocol. Without an identity, Sipher jobs are refused with an error
// that names the missing settings.
func (p Ports) sipher(f federation) (protocol.Protocol, error) {
	policies, err := peers.ParsePolicies(f.sipher.Threats)
	if err != nil {
		return protocol.Protocol{}, fmt.Errorf("SIPHER_THREAT_POLICIES: %w", err)
	}
	hc, err := p.client(f.outbound, f.hosts, sipher.Timeout, sipher.MaxAnswer)
	if err != nil {
		return protocol.Protocol{}, err
	}
	c := f.sipher
	return sipher.Register(sipher.New(sipher.Config{
		Identity: f.identity, Store: p.store().Sipher(), HTTP: hc, Policies: &policies, Probes: c.Probes, Checks: c.Checks,
		Limiter: peers.NewRateLimit(c.DiscoverRate, c.DiscoverRate, p.now()), Log: p.Log, Now: p.now(),
	}), sipher.Bounds{InFlight: c.Deliveries, PerHost: f.perHost}), nil
}

// Rotation changes our Sipher keys at peers. It needs no running fedpost.
func (p Ports) Rotation(o config.Outbound, before, after crypto.Identity) (peers.Rotation, error) {
	c, err := p.client(o, nil, peers.RotateTimeout, outbound.MaxBody)
	if err != nil {
		return peers.Rotation{}, err
	}
	return peers.Rotation{HTTP: peers.NewExchange(c), Old: before, New: after, Entropy: rand.Reader}, nil
}
