package deliver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
)

// unit is a delivery message being worked on: a chunk of targets, or one.
type unit struct {
	*invocation
	// id never changes: the journal reads it whenever its timer fires.
	id    message.Unit
	m     queue.Received
	a     activity.Activity
	d     message.Delivery
	route protocol.Delivery
	known ledger.Known
	claim ledger.Claim
	jobs  []*job
	// gone says why the body of the activity cannot be read; nil: it was read.
	gone error
	// keyMark marks the names of inboxes with this activity's key: see signed.
	keyMark string
	// ahead has those of the jobs that wait for a place of the queue.
	ahead *ticket
}

// job is one target of a unit that is not done.
type job struct {
	target   activity.Target
	position int
	host     string
	place    cache.Place
	attempts int // made so far, recorded or not
	unsent   int // tries that ended before a request was made
	tried    ledger.Tries
	attempt  bool
	last     ledger.Recipient // what is recorded, if recorded
	recorded bool

	out      outcome.Outcome
	answered time.Time // by the wall clock, as timers are
	// What becomes of it, once decided.
	state  activity.State
	by     activity.ID
	note   string
	next   time.Time // of the next attempt
	lot    string    // key of the server or inbox to park under
	hold   bool      // park as a part of an ordered group whose host accepts others
	due    time.Time // when it is released from there; zero: behind others
	slot   time.Time // reserved for it under a rate limit
	reason string    // of its dead letter
	revive time.Time // until when it is revived if its server comes back; zero: not at all
}

// claimedElsewhere is how long a message waits before it looks again whether another
// worker's claim has ended. Most claims end long before they lapse; a message that was
// split off may even come before its chunk is recorded. So the first wait is short, and
// later ones grow, so that a worker that died does not use up the message's receives.
func (u *unit) claimedElsewhere(until time.Time) time.Duration {
	const most = 30 * time.Second
	wait := time.Second << min(max(0, u.m.ReceiveCount-1), 5)
	return min(u.delayed(until)+time.Second, u.jitter(min(wait, most)))
}

// tries counts against the policy's.
func (j *job) tries() int { return j.attempts + j.unsent }

// single reports whether the unit is one target by itself.
func (u *unit) single() bool { return u.d.Position != message.Whole }

// one is the delivery message of a single target.
func (u *unit) one(j *job, generation int) message.Delivery {
	return message.Delivery{
		Chunk: u.d.Chunk, Position: j.position, Targets: []activity.Target{j.target},
		Attempts: j.attempts, Unsent: j.unsent, Generation: generation, Since: u.d.Since, Revive: u.d.Revive, Slot: j.slot,
	}
}

// deliver works on a delivery message.
//
// All effects outside the ledger (spots, messages, dead letters) come before the record
// that speaks of them. A crash in between repeats the effects, which is harmless; in the
// other order a crash would lose them.
func (v *invocation) deliver(ctx context.Context, m queue.Received, a activity.Activity, d message.Delivery) (disposition, error) {
	ahead, ok := v.takeUp(ctx, len(d.Targets))
	if !ok {
		return again(0), nil
	}
	defer ahead.end()
	u, f, err := v.take(ctx, m, a, d)
	if u == nil || err != nil {
		return f, err
	}
	if u.gone != nil {
		return u.giveUpAll(ctx, "payload", u.gone.Error())
	}
	u.ahead = ahead
	if err := u.decide(ctx); err != nil {
		return disposition{}, err
	}
	if !u.needsClaim() {
		if err := u.storeOnce(ctx); err != nil {
			return disposition{}, err
		}
		return done, u.park(ctx)
	}
	if f, ok, err := u.hold(ctx); !ok || err != nil {
		return f, err
	}
	u.attemptAll(ctx)
	return u.commit(ctx)
}

// take looks a unit up in the ledger and lists its jobs. It returns nil if the message's
// disposition is decided.
func (v *invocation) take(ctx context.Context, m queue.Received, a activity.Activity, d message.Delivery) (*unit, disposition, error) {
	p, ok := v.Protocols.Of(a.Protocol)
	if !ok {
		f, err := v.reject(ctx, m, "protocol", fmt.Errorf("protocol %q is not configured", a.Protocol))
		return nil, f, err
	}
	u := &unit{invocation: v, id: d.Unit(a.ID), m: m, a: a, d: d, route: p.Delivery}
	var err error
	if u.known, err = v.Ledger.Inspect(ctx, u.id); err != nil {
		return nil, disposition{}, err
	}
	if err := u.load(ctx); err != nil {
		return nil, disposition{}, err
	}
	u.tellKnown()
	if until := u.known.Claimed; until.After(v.Now()) {
		// Even if nothing is to be sent any more: what the claimant's journal has noted
		// is read, and told, when the claim is over.
		return nil, again(u.claimedElsewhere(until)), nil
	}
	u.list()
	if err := u.finishParking(ctx); err != nil {
		return nil, disposition{}, err
	}
	if u.known.Record.Cancelled || a.Expired(v.Now()) {
		// Nothing is written. The activity's record shows that it is cancelled or
		// expired, and so are all recipients that are not final.
		if err := u.forgetBody(ctx); err != nil {
			return nil, disposition{}, err
		}
		return nil, done, u.leave(ctx, false)
	}
	if u.known.Lapsed {
		if err := errors.Join(u.keepForRetry(ctx, u.noted()), u.noteKnown(ctx)); err != nil {
			return nil, disposition{}, err
		}
	}
	if len(u.jobs) == 0 {
		return nil, done, u.leave(ctx, true)
	}
	if wait := d.Slot.Sub(v.Now()); wait > time.Second {
		// The message comes early, because the ordered queue cannot delay a message.
		return nil, again(wait), nil
	}
	if j := u.jobs[0]; u.single() && j.last.State == activity.Retrying && j.last.NextAttemptAt.Sub(v.Now()) > time.Second {
		// This is a second copy of the message that waits for the next attempt.
		return nil, again(v.delayed(j.last.NextAttemptAt)), nil
	}
	return u, disposition{}, nil
}

// list makes a job of each target that this message is for. A chunk's targets with a record
// have messages of their own, which were sent before that record was written. A single
// target's message is stale if the record is of a later generation.
func (u *unit) list() {
	u.jobs = nil
	for i, t := range u.d.Targets {
		j := &job{target: t, position: i, host: t.Host(), attempts: u.d.Attempts, unsent: u.d.Unsent}
		j.place = u.place(j.host, t)
		if u.single() {
			j.position = u.d.Position
		}
		r, ok := u.known.Recipients[j.position]
		if ok && !u.single() {
			continue
		}
		if ok {
			revived := r.RevivedBy(u.d.Generation)
			if (r.State.Final() && !revived) || u.d.Generation < r.Generation {
				continue
			}
			j.last, j.recorded, j.tried = r, r.State != activity.Queued, r.Tries
			if !revived {
				j.attempts, j.unsent = max(j.attempts, r.Attempts), max(j.unsent, r.Unsent)
			}
		}
		u.jobs = append(u.jobs, j)
	}
}

// needsClaim reports whether the unit has to be claimed. A unit whose targets are all
// parked for the first time is not claimed and gets no record: the spots say everything,
// for one write each.
func (u *unit) needsClaim() bool {
	for _, j := range u.jobs {
		if j.lot == circuit.InboxKey(u.signed(j.target).Inbox) {
			return true // without a record, a view would not look for this spot
		}
		if j.state != activity.Parked || j.recorded || (u.d.Generation > 0 && !u.a.Ordered()) {
			return true
		}
	}
	return false
}

// hold claims the unit, and drops jobs that other workers have taken since the unit was
// inspected. It returns false if the message's disposition is decided.
func (u *unit) hold(ctx context.Context) (disposition, bool, error) {
	u.known.Journal = u.journal.name
	claim, err := u.Ledger.Claim(ctx, u.id, u.known, u.owner(), u.lease())
	switch {
	case errors.Is(err, ledger.ErrStale):
		return done, false, u.leave(ctx, true)
	case errors.Is(err, ledger.ErrClaimed):
		return again(u.jitter(5 * time.Second)), false, nil
	case err != nil:
		return disposition{}, false, err
	}
	u.claim = claim
	if u.single() {
		return disposition{}, true, nil
	}
	var mine []*job
	for _, j := range u.jobs {
		if _, taken := claim.Known.Recipients[j.position]; !taken {
			mine = append(mine, j)
		}
	}
	u.jobs = mine
	return disposition{}, true, nil
}

// owner names this receipt of the message.
func (u *unit) owner() string { return u.Worker + receipt(u.m) }

// receipt names one receipt of a message.
func receipt(m queue.Received) string { return m.ID + "." + strconv.Itoa(m.ReceiveCount) }

// lease is how long the unit is claimed: as long as this invocation can run.
func (u *unit) lease() time.Time {
	if u.end.IsZero() {
		return u.Now().Add(u.Limits.Lease)
	}
	return u.end
}
