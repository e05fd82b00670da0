package deliver

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/admission"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/protocol"
)

// weight is how much memory a message takes: its text, what it is decoded to, and what it refers
// to, which is stored in parts. It is 0 for a small message.
func weight(w intake.Work) int {
	n, parts := 2*len(w.Received.Body), 0
	if r := w.Message.Ref; r != nil {
		parts = 2 * r.Parts
	}
	if a := w.Message.Activity; a != nil {
		parts = a.Apart.Parts
	}
	if n += parts * claimcheck.PartSize; n < 2*bodies.Large {
		return 0
	}
	return n
}

// takeUp waits until there is memory for a message, while an attempt would still fit into the
// invocation. If there is none, it says when the message comes back.
func (v *invocation) takeUp(ctx context.Context, w intake.Work) (*admission.Ticket, intake.Disposition, bool) {
	if !v.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(0, v.end.Sub(v.Now())-v.Limits.Attempt-reserve))
		defer cancel()
	}
	id, recipients := "", 0
	if m := w.Message; m.Deliver != nil {
		id, recipients = string(m.Activity.ID), len(m.Deliver.Targets)
	}
	ticket, ok := v.admission.Take(ctx, id, w.Message.Sender(), recipients, weight(w))
	if !ok && ctx.Err() == nil {
		wait := time.Duration(max(1, w.Received.ReceiveCount)) * 5 * time.Second
		return nil, intake.Again(intake.Jitter(min(wait, time.Minute), v.Random())), false
	}
	return ticket, intake.Again(0), ok
}

// outcomes makes the attempts of a unit, and yields each target whose attempt has ended or will
// not be made.
func (v *invocation) outcomes(ctx context.Context, u *unit) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		due := u.due()
		v.admission.Keep(u.ticket, len(due))
		if len(due) == 0 {
			return
		}
		results := make(chan *job, len(due))
		try := u.route.Sender.Prepare(ctx, u.a)
		entered := make([]*admission.Attempt, len(due))
		for i, j := range due {
			entered[i] = v.asks(ctx, u, j, try, func() { results <- j })
			v.admission.Enter(entered[i])
		}
		stop := context.AfterFunc(ctx, func() { // the process stops
			for i, j := range due {
				if v.admission.Withdraw(entered[i]) {
					j.verdict = verdict.NotNow{}
					results <- j
				}
			}
		})
		defer stop()
		for range due {
			if !yield(<-results) {
				return
			}
		}
	}
}

// asks is the request of j for a place. done is called when the attempt has ended or will not
// be made.
func (v *invocation) asks(ctx context.Context, u *unit, j *job, try protocol.Attempt, done func()) *admission.Attempt {
	a := &admission.Attempt{
		Host: j.host, Inbox: j.keys.Inboxes[0], Site: siteOf(j.host), Activity: string(u.a.ID), Ticket: u.ticket,
		// The retries of a delivery are receives of its message, too.
		Receives: max(1, u.Received.ReceiveCount-j.tries()), Here: len(u.jobs) == 1,
		Do: func(signed func()) admission.Result { return v.attempt(protocol.WhenSigned(ctx, signed), u, j, try) }, Done: done,
	}
	a.Back = func(at time.Time, why string) {
		s := v.snapshot(u, j)
		j.verdict = verdict.NoPlaceUntil(&s, j.named(), "waits for a place: "+why, at)
		done()
	}
	if !v.end.IsZero() {
		a.Until = v.end.Add(-u.longest(v.Limits.Attempt) - reserve)
	}
	if r := u.route; r.InFlight > 0 {
		a.Lane = admission.Lane{Name: string(u.a.Protocol), Places: r.InFlight, PerHost: r.PerHost}
	}
	// A host with much of its budget spent, and an inbox, or a signing key at it, that has
	// accepted nothing since its last outage or pause, get one attempt at a time. If that
	// fails, the others are spared.
	if s := v.Hosts.State(j.keys.Host); s.OneByOne(v.Rules) {
		if a.Alone = true; !s.BesideOthers(v.Rules, j.target.Inbox) {
			a.Inbox = j.keys.Host
		}
		return a
	}
	for _, key := range j.keys.Inboxes {
		if s := v.Hosts.State(key); s.Unproven > 0 || s.Throttles > 0 {
			a.Inbox, a.Alone = key, true
			break
		}
	}
	return a
}

// siteOf is the site of a host; empty for private networks, where trials have many hosts on one
// address.
func siteOf(host string) string {
	site := activity.SiteOf(host)
	ip, err := netip.ParseAddr(site)
	if p, notPrefix := netip.ParsePrefix(site); notPrefix == nil {
		ip, err = p.Addr(), nil
	}
	if site == "localhost" || err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()) {
		return ""
	}
	return site
}
