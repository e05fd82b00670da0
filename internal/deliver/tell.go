package deliver

import (
	"context"
	"maps"
	"slices"
	"time"

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
	// Watch and Finish are those of events.Watcher.
	Watch(ctx context.Context, id activity.ID, about events.About, forget time.Time) error
	Finish(ctx context.Context, id activity.ID) error
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
	for _, position := range slices.Sorted(maps.Keys(u.known.Recipients)) {
		r := u.known.Recipients[position]
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
	messages := map[string]bool{} // by handle
	for _, one := range all {
		ends = append(ends, one.ends...)
	}
	if len(ends) == 0 {
		return nil
	}
	err := v.repeated(ctx, func() error { return v.Events.TellEnds(ctx, ends) })
	if err == nil {
		return nil
	}
	v.Log.ErrorContext(ctx, "events could not be told, and their messages come back", "queue", v.from, "events", len(ends), "error", err)
	for _, one := range all {
		m := one.message
		if messages[m.Handle] {
			continue
		}
		messages[m.Handle] = true
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

// watched is for how long it is looked whether an activity is done: longer than any retry
// policy may be configured to try.
const watched = 100 * 24 * time.Hour

// watch begins to watch an activity that asks for it, when its first message comes. The
// message is not acknowledged before.
func (v *invocation) watch(ctx context.Context, a activity.Activity) error {
	if !a.Notify || v.Events == nil {
		return nil
	}
	return v.Events.Watch(ctx, a.ID, About(v.Protocols, a), v.Now().Add(watched))
}

// mayBeDone notes that u has recorded the last recipients of its activity, as far as it
// knows: u was the only chunk, or a part of it. The schedule looks at larger activities.
func (u *unit) mayBeDone() {
	if !u.a.Notify || u.Events == nil || u.known.Record.Chunks() > 1 {
		return
	}
	for _, j := range u.jobs {
		if !j.state.Final() {
			return
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = append(u.over, u.a.ID)
}

// finishAll looks whether activities are done. A failure is left to the schedule.
func (v *invocation) finishAll(ctx context.Context) {
	v.mu.Lock()
	over := v.over
	v.mu.Unlock()
	slices.Sort(over)
	for _, id := range slices.Compact(over) {
		if err := v.Events.Finish(ctx, id); err != nil {
			v.Log.WarnContext(ctx, "it is not told yet whether an activity is done", "activity", id, "error", err)
		}
	}
}
