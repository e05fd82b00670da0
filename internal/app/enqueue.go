package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/app/config"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
)

// API is the HTTP interface, which functions/enqueue serves. token, if not
// empty, is what clients authenticate with.
func API(c config.Enqueue, token string, p Ports) (http.Handler, error) {
	keys := p.ring()
	// It shows who we are and signs nothing.
	who, err := c.SipherIdentity.Load()
	if err != nil {
		return nil, fmt.Errorf("identity in the Sipher network: %w", err)
	}
	federation, err := p.sipher(crypto.Identity{Public: who}, c.Sipher, c.Outbound)
	if err != nil {
		return nil, err
	}
	pol, err := c.Retry.Build()
	if err != nil {
		return nil, err
	}
	tally := p.tally()
	operating, err := p.operating(c, tally)
	if err != nil {
		return nil, err
	}
	return api.New(api.Options{
		Enqueuer: p.enqueuer(c, p.coalesce(pol), keys, federation, p.meter(tally)), Keys: keys, Activities: activities{p.store(), p.now()},
		Routes: append(operating, api.Route{Pattern: "/discover", Handler: federation.Handler(), Public: true}),
		Token:  token, Now: p.now(), RequestID: rand.Text, Log: p.Log,
	}), nil
}

func (p Ports) enqueuer(c config.Enqueue, noter enqueue.Noter, keys enqueue.Keys, federation *sipher.Protocol, meter stats.Meter) *enqueue.Service {
	s := p.store()
	return enqueue.New(enqueue.Options{
		Queues: p.senders(), Ledger: s, Payloads: s, Agenda: s, Keys: keys,
		Markers: dedup.New(s, dedup.Options{
			TTL: c.Deduplication.TTL, Prefix: c.Deduplication.Prefix, Fallback: dedup.Fallback(c.Deduplication.Fallback),
			Now: p.now(), Entropy: rand.Reader, Log: p.Log,
		}),
		Noter: noter, Jobs: follows{federation}, Meter: meter,
		Limits: enqueue.Limits{
			Body: c.Limits.ActivityBytes, Inboxes: c.Limits.Recipients, Batch: c.Limits.Batch, Delay: c.Limits.Delay,
		},
		Retention:  c.Limits.Retention,
		Priorities: c.Priorities.ByType(), Priority: activity.Priority(c.Priorities.Default),
		Now: p.now(), Entropy: rand.Reader, Log: p.Log,
	})
}

// follows notes the follow of a Sipher job before it is sent.
type follows struct{ protocol *sipher.Protocol }

func (f follows) RecordJob(ctx context.Context, a activity.Activity, _ activity.Target) error {
	return f.protocol.RecordFollow(ctx, a)
}
