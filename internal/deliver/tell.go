package deliver

import (
	"context"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol"
)

// Teller appends what became of recipients to the feed of events. Repeating a call is
// harmless.
type Teller interface {
	TellEnds(ctx context.Context, ends []events.End) error
}

// About is what an activity says of itself, for its events.
func About(protocols protocol.Set, a activity.Activity) events.About {
	about := events.About{Type: a.Type}
	if p, ok := protocols.Of(a.Protocol); ok && p.Intake.Inspector != nil {
		said, _ := p.Intake.Inspector.Inspect(a.Body)
		about.ID, about.Actor = said.ID, said.Actor
	}
	return about
}

// untold are the ends of a message that are recorded and not told yet.
type untold struct {
	message queue.Received
	ends    []events.End
}

// tell has ends told when the invocation ends, in one write for many of its units. They are
// recorded by then, and u's message is not acknowledged before they are told. So whatever
// crashes, the message comes back, and tells of them what take finds recorded.
func (u *unit) tell(rs ...ledger.Recipient) {
	if u.Events == nil || u.route.Quiet {
		return
	}
	var about *events.About
	var ends []events.End
	for _, r := range rs {
		inbox := r.Target.Inbox
		if at := r.Position; u.single() {
			inbox = u.d.Targets[0].Inbox
		} else if at < len(u.d.Targets) {
			inbox = u.d.Targets[at].Inbox
		}
		if about == nil && r.State.Final() && r.State != activity.Delivered {
			about = new(events.About)
			*about = About(u.Protocols, u.a)
		}
		if about == nil {
			continue
		}
		r.Chunk = u.d.Chunk
		if e, ok := events.EndOf(u.a.ID, *about, inbox, r); ok {
			ends = append(ends, e)
		}
	}
	if len(ends) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.untold = append(u.untold, untold{u.m, ends})
}

// tellKnown has those ends told that an earlier worker has recorded. That worker may have
// died before it told them. Targets with messages of their own are left to those.
func (u *unit) tellKnown() {
	for position, r := range u.known.Recipients {
		revived := u.d.Generation > r.Generation // dead or failed, and tried anew
		if u.single() && (position != u.d.Position || revived) || !u.single() && r.Own {
			continue
		}
		r.Position = position
		u.tell(r)
	}
}

// tellAll tells what the messages of a batch have led to, and returns the ids of those
// messages that have to come back because that failed.
func (v *invocation) tellAll(ctx context.Context) (back []queue.Received) {
	v.mu.Lock()
	all := v.untold
	v.mu.Unlock()
	var ends []events.End
	messages := map[string]queue.Received{}
	for _, one := range all {
		ends = append(ends, one.ends...)
		messages[one.message.Handle] = one.message
	}
	if len(ends) == 0 {
		return nil
	}
	err := v.repeated(ctx, func() error { return v.Events.TellEnds(ctx, ends) })
	if err == nil {
		return nil
	}
	v.Log.ErrorContext(ctx, "events could not be told, and their messages come back", "queue", v.from, "events", len(ends), "error", err)
	for _, m := range messages {
		f := v.trouble(m)
		if v.needsRenewal(m) {
			if f, err := v.renew(ctx, m, f, err); err == nil && f.done {
				continue
			}
		}
		v.comeBack(ctx, m, f)
		back = append(back, m)
	}
	return back
}
