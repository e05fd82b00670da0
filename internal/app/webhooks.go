package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api/operator"
	"fedpost/internal/app/config"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
)

// webhooks registers the protocol that takes events to URLs of the operator.
func (p Ports) webhooks(f federation) (protocol.Protocol, error) {
	s := p.store()
	pump := &webhook.Pump{Store: s, Feed: feed{s}, Hand: p.handOver}
	if p.Metrics != nil {
		pump.Counted = p.Metrics.Counted
	}
	if f.hosts == nil {
		return webhook.Register(nil, pump), nil
	}
	hc, err := p.client(f.outbound, f.hosts, f.outbound.Timeout, outbound.MaxBody)
	if err != nil {
		return protocol.Protocol{}, err
	}
	return webhook.Register(&webhook.Sender{Store: s, Sealer: p.Sealer, Client: hc, Now: p.now(), Date: p.date(), Log: p.Log}, pump), nil
}

// prober probes no server of a webhook: it may answer POST only, so an event is the trial.
type prober struct {
	healthcheck.Prober
	ofWebhook func(ctx context.Context, host string) (bool, error)
}

// Probe implements healthcheck.Prober.
func (p prober) Probe(ctx context.Context, host string) outcome.Outcome {
	switch of, err := p.ofWebhook(ctx, host); {
	case err != nil:
		return outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried, Err: err.Error()}
	case of:
		return outcome.Outcome{Class: outcome.Delivered}
	}
	return p.Prober.Probe(ctx, host)
}

// Pump returns a function that sends new events to webhooks at once, without the schedule.
func Pump(c config.HealthCheck, p Ports) (func(context.Context) error, error) {
	p.keepEvents = c.Events.Retention
	w, err := p.webhooks(federation{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return w.Upkeep.Check(ctx, p.now()()) }, nil
}

// feed is the feed of events in the format of webhooks.
type feed struct{ events.Store }

// After implements webhook.Feed.
func (f feed) After(ctx context.Context, cursor string, limit int) (all []webhook.Event, next string, more bool, err error) {
	p, err := f.Events(ctx, cursor, limit)
	if err != nil {
		return nil, "", false, err
	}
	for _, e := range p.Events {
		text, err := operator.EventJSON(e)
		if err != nil {
			return nil, "", false, err
		}
		all = append(all, webhook.Event{ID: e.ID, Type: string(e.Kind), Time: e.Time, JSON: text})
	}
	return all, p.Next, p.More, nil
}

// keptWebhooks is how long the record of a request to a webhook is kept: longer than the request
// is tried.
const keptWebhooks = webhook.GiveUp + 9*24*time.Hour

// recordsAtOnce is how many records are written at once: those of a thousand requests must be
// written within a scheduled run.
const recordsAtOnce = 16

// handOver records requests to webhooks, then puts them on their queue. Repeating a call is
// harmless: a second copy of a message finds the claim or the outcome of the first.
func (p Ports) handOver(ctx context.Context, all []webhook.Sending) error {
	s := p.store()
	ms := make([]message.Addressed, len(all))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(recordsAtOnce)
	for i, one := range all {
		a, targets := one.Activity, []activity.Target{{Inbox: one.URL, Stands: 1}}
		r := ledger.Record{
			ID: a.ID, Protocol: a.Protocol, Type: a.Type, CreatedAt: a.CreatedAt, Recipients: 1, Targets: 1,
			Chunk: ledger.ChunkSize, Inline: targets, Forget: a.CreatedAt.Add(keptWebhooks),
		}
		g.Go(func() error {
			if err := s.CreateActivity(gctx, r); err != nil && !errors.Is(err, ledger.ErrExists) {
				return fmt.Errorf("record a request to a webhook: %w", err)
			}
			return nil
		})
		name := message.QueueOf(a)
		to := message.Sending{Queue: name, Can: p.Queue(name).Capabilities(), Now: p.now()()}
		var err error
		// A trial reads the state of its server anew.
		if ms[i], err = (message.Delivery{Position: message.Whole, Targets: targets, Trial: one.Test}).Queued(a, to); err != nil {
			return errors.Join(err, g.Wait())
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(message.Send(ctx, p.sender, ms)...)
}

// reopen ends the outages of a URL and its host. An operator's pause or block stays.
func (p Ports) reopen(ctx context.Context, rules circuit.Rules, url string) error {
	for _, key := range []string{circuit.HostKey(activity.HostOf(url)), circuit.InboxKey(url)} {
		_, _, err := circuit.Change(ctx, p.store(), key, func(s circuit.State) circuit.State {
			if s.Phase == circuit.Paused || s.Phase == circuit.Blocked {
				return s
			}
			return s.Resume(rules, p.now()())
		})
		if err != nil {
			return fmt.Errorf("end the outage of %s: %w", key, err)
		}
	}
	return nil
}

// forward returns a function that puts new events on the bus; nil if there is none.
func (p Ports) forward() func(context.Context) error {
	if p.Bus == nil {
		return nil
	}
	s := p.store()
	return events.Forwarder{Store: s, Marks: s, Reader: "bus " + p.BusName, Put: func(ctx context.Context, all []events.Event) error {
		entries := make([]BusEvent, len(all))
		for i, e := range all {
			text, err := operator.EventJSON(e)
			if err != nil {
				return err
			}
			entries[i] = BusEvent{Type: string(e.Kind), Time: e.Time, JSON: text}
		}
		return p.Bus.Put(ctx, entries)
	}}.Run
}
