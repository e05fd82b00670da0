package sipher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/sipher/wire"
)

// Attempt makes the n-th attempt, from 1, to deliver a job: Body is the exact plaintext, ServerURL the
// server, the target's Inbox the target URL. If no request to the target was made, the outcome is
// Unsent if that counts as a try, else Untried. Discard: the protocol removes the delivery record.
func (p *Protocol) Attempt(ctx context.Context, a activity.Activity, t activity.Target, n int) outcome.Outcome {
	began := p.Now()
	a.ServerURL = activity.ServerName(a.ServerURL)
	d := &delivery{Protocol: p, a: a, target: t.Inbox, n: n}
	o := d.attempt(ctx)
	o.Took, o.Method = p.Now().Sub(began), string(d.payload.Method)
	return o.Cleaned()
}

type delivery struct {
	*Protocol
	a      activity.Activity
	target string
	n      int

	payload wire.Payload
	server  peers.Server
}

// attempt goes through the rows of the outcome table in their order.
func (d *delivery) attempt(ctx context.Context) outcome.Outcome {
	var err error
	if d.payload, err = wire.ParsePayload(d.a.Body); err != nil {
		return refused(err, discard)
	}
	// A job may name a target on another host than its server.
	urls := []string{d.a.ServerURL}
	if activity.HostOf(d.target) != activity.HostOf(d.a.ServerURL) {
		urls = append(urls, d.target)
	}
	for _, url := range urls {
		block, err := d.Store.Blocked(ctx, url)
		if err != nil {
			return later(fmt.Errorf("read the block list: %w", err))
		}
		if block != nil {
			return refused(fmt.Errorf("%s is on the block list: %s", url, block.Reason), discard)
		}
	}
	if o, ok := d.findServer(ctx); !ok {
		return o
	}
	body, o, ok := d.seal()
	if !ok {
		return o
	}
	if ctx.Err() != nil {
		return later(fmt.Errorf("no time is left for the delivery: %w", context.Cause(ctx)))
	}
	if o, ok := d.reserveTry(ctx); !ok {
		return o
	}
	d.makeKnown(ctx)
	asked := time.Now()
	answer, err := d.http.Post(ctx, d.target, wire.DeliveryHeaders(d.Identity.Origin, d.target), body, Timeout)
	if err != nil {
		return d.unreachable(ctx, body, asked, peers.FaultOf(err))
	}
	d.answered(ctx, answer)
	return d.judge(ctx, answer)
}

// findServer reads the server's record, or discovers a server that has none.
func (d *delivery) findServer(ctx context.Context) (outcome.Outcome, bool) {
	var err error
	d.server, err = d.Store.Server(ctx, d.a.ServerURL)
	if err == nil {
		return outcome.Outcome{}, true
	}
	if !errors.Is(err, peers.ErrUnknown) {
		return later(fmt.Errorf("read the registry: %w", err)), false
	}
	// Without an identity the delivery is refused below in any case.
	if err := d.Identity.Ready(); err != nil {
		return refused(err, keep), false
	}
	if d.server, err = d.discovery.Discover(ctx, d.a.ServerURL); err != nil {
		return undiscovered(ctx, err), false
	}
	return outcome.Outcome{}, true
}

// seal makes the request's body.
func (d *delivery) seal() (string, outcome.Outcome, bool) {
	recipient, err := crypto.DecodeSize(d.server.EncryptionKey, crypto.KeySize)
	if err != nil {
		return "", unsent(fmt.Errorf("encryption key of %s: %w", d.server.URL, err)), false
	}
	sealed, err := crypto.Seal(d.Entropy, recipient, d.a.Body)
	if err != nil {
		return "", unsent(fmt.Errorf("encrypt to %s: %w", d.server.URL, err)), false
	}
	if err := d.Identity.Ready(); err != nil {
		return "", refused(err, keep), false
	}
	body, err := wire.DeliveryBody(d.payload.Method, sealed, d.Identity.Sign(d.a.Body))
	if err != nil {
		return "", later(err), false
	}
	return body, outcome.Outcome{}, true
}

// unreachable is row 6 without an answer: it marks the server unhealthy and, if the policy allows it,
// asks a proxy to pass the delivery on. If the proxy fails too, the direct attempt's error stands.
func (d *delivery) unreachable(ctx context.Context, body string, asked time.Time, f *peers.Fault) outcome.Outcome {
	o := outcome.Outcome{Class: outcome.Retry, Reason: f.Class, Err: f.Error()}
	switch {
	case f.Stopped:
		// Our own stop says nothing of the host and costs no try.
		o.Reason, o.Try = outcome.ReasonNone, outcome.Untried
		return o
	case !f.Host:
		o.Class, o.Try = outcome.Refused, outcome.Untried
		return o
	case ctx.Err() != nil && time.Since(asked) < Timeout-time.Second:
		// The attempt ran out of time before the server had its Timeout.
		return o
	}
	d.mark(ctx, f.Reason)
	if !d.Policies.For(f.Reason).ProxyEligible {
		return o
	}
	answer, proxy, err := d.relay.Deliver(ctx, peers.Delivery{Target: d.server, TargetURL: d.target, Body: body, Reason: f.Reason})
	if err != nil {
		d.Log.WarnContext(ctx, "sipher proxy fallback failed", "id", d.a.ID, "target", d.target, "error", err)
		return o
	}
	note, err := d.proxiedAck(ctx, answer.Body)
	if err != nil {
		d.Log.WarnContext(ctx, "sipher proxy's answer does not prove the delivery", "id", d.a.ID, "target", d.target, "proxy", proxy, "error", err)
		return o
	}
	return outcome.Outcome{
		Class: outcome.Delivered, Discard: true, Status: answer.Status, Note: join("passed on by "+proxy, note),
	}
}

// judge turns an answer into an outcome: rows 6 (not 2xx), 7 and 8 of the outcome table.
func (d *delivery) judge(ctx context.Context, a outbound.Answer) outcome.Outcome {
	o := outcome.Outcome{Status: a.Status, Response: a.Excerpt()}
	if !a.OK() {
		if d.n > 1 && wire.AlreadyThere(a.Status, a.Body) {
			o.Class = outcome.Delivered
			o.Note = "acknowledgement lost: an earlier try was received, its answer was not"
			return o
		}
		o.Class, o.Err = outcome.Retry, fmt.Sprintf("answered %d", a.Status)
		return o
	}
	ack, err := wire.ParseAck(a.Body)
	if errors.Is(err, wire.ErrNoAck) && d.a.Job != wire.DeliverFollow && wire.NamesAck(a.Body) {
		// The protocol inspects only acknowledgements of follows.
		err = nil
	}
	if err != nil {
		o.Class, o.Err = outcome.Refused, err.Error()
		return o
	}
	if d.a.Job == wire.DeliverFollow {
		note, err := d.followAck(ctx, ack)
		if err != nil {
			o.Class, o.Err, o.Discard = outcome.Refused, err.Error(), !errors.Is(err, errNoSigningKey)
			return o
		}
		o.Note = note
	}
	o.Class, o.Discard, o.Response = outcome.Delivered, true, ""
	return o
}

type record bool

const (
	keep    record = false
	discard record = true
)

// refused is a final outcome without a request to the target.
func refused(err error, r record) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Refused, Err: err.Error(), Try: outcome.Untried, Discard: r == discard}
}

// unsent is the outcome of a try that failed before a request to the target was made.
func unsent(err error) outcome.Outcome {
	o := later(err)
	o.Try = outcome.Unsent
	return o
}

// undiscovered is the outcome of a failed discovery: a try, unless the fault is on our side.
func undiscovered(ctx context.Context, err error) outcome.Outcome {
	var f *peers.Fault
	if ctx.Err() != nil || errors.Is(err, peers.ErrStore) || errors.As(err, &f) && f.Stopped {
		return later(err)
	}
	return unsent(err)
}

// later is the outcome of a fault on our side: the delivery is tried again and loses no try.
func later(err error) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Retry, Err: err.Error(), Try: outcome.Untried}
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// tryEvery is the time between two tries of a server that hangs, over all workers. Each try holds a
// worker for Timeout (15 s), so about eight workers are held at most.
const tryEvery = 2 * time.Second

// reserveTry reserves the next try of a server that hangs, so that its backlog does not hold all
// workers. ok is false if another delivery has it.
func (d *delivery) reserveTry(ctx context.Context) (o outcome.Outcome, ok bool) {
	if d.server.NextTryAt.IsZero() {
		return outcome.Outcome{}, true
	}
	next, err := d.Store.ReserveTry(ctx, d.server.URL, d.Now(), tryEvery)
	if err != nil {
		d.Log.ErrorContext(ctx, "cannot claim the next try of a sipher server that hangs", "server", d.server.URL, "error", err)
		return outcome.Outcome{}, true
	}
	if next.IsZero() {
		return outcome.Outcome{}, true
	}
	return outcome.Outcome{
		Class: outcome.Retry, Try: outcome.Waiting, RetryAfter: next, Err: "the server does not answer in time; one of its jobs is tried every two seconds",
	}, false
}

func (d *delivery) markAnswering(ctx context.Context) {
	if !d.server.NextTryAt.IsZero() {
		d.aside(ctx, "cannot record that a sipher server does not hang", d.Store.MarkAnswering)
	}
}
