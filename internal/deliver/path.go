package deliver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/expansion"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
)

// This file is the path of a received message, from top to bottom: receive, look up, decide,
// claim, attempt, classify, carry out and record. Package verdict decides what becomes of a
// target, and executor carries it out.

func (v *invocation) message(ctx context.Context, m queue.Received) (intake.Disposition, error) {
	w, d, err := v.intake.Receive(ctx, v.from, m)
	if w == nil || err != nil {
		return d, err
	}
	if w.Message.Deliver == nil {
		ticket, later, ok := v.takeUp(ctx, *w)
		if !ok {
			return v.intake.Finish(ctx, *w, later, nil)
		}
		defer v.admission.End(ticket)
		x := expansion.Expander{Intake: v.intake, Bodies: v.bodies, Trace: v.Trace, Late: v.late, GiveUp: v.giveUp}
		d, err = x.Expand(ctx, *w)
	} else {
		d, err = v.delivery(ctx, *w)
	}
	return v.intake.Finish(ctx, *w, d, err)
}

func (v *invocation) delivery(ctx context.Context, w intake.Work) (d intake.Disposition, err error) {
	if w.Last != "" {
		return v.giveUp(ctx, w, "receives", w.Last)
	}
	a, trial := *w.Message.Activity, w.Message.Deliver.Trial
	ctx, span := v.Trace.Process(ctx, w.Traced(), a)
	d, err = v.deliver(ctx, w)
	span.EndReceive(d.Done, err)
	if trial && d.Done && err == nil {
		err = deaths{v.Engine}.void(ctx, newUnit(w, protocol.Delivery{}))
	}
	return d, err
}

// deliver takes a delivery from its message to its record.
//
// All effects outside the ledger (spots, messages, dead letters) come before the record that
// says so. A crash in between repeats the effects, which is harmless; in the other order it
// would lose them.
func (v *invocation) deliver(ctx context.Context, w intake.Work) (intake.Disposition, error) {
	ticket, d, ok := v.takeUp(ctx, w)
	if !ok {
		return d, nil
	}
	defer v.admission.End(ticket)
	u, d, err := v.lookUp(ctx, w)
	if u == nil || err != nil {
		return d, err
	}
	u.ticket = ticket
	if u.gone != nil {
		return v.endAll(ctx, u, "payload", u.gone.Error())
	}
	if err := v.decide(ctx, u); err != nil {
		return intake.Disposition{}, err
	}
	v.admission.Keep(ticket, len(u.due()))
	if !u.needsClaim() {
		return executor{v}.parkUnrecorded(ctx, u)
	}
	if d, ok, err := v.claim(ctx, u); !ok || err != nil {
		return d, err
	}
	v.attemptAll(ctx, u)
	return executor{v}.carryOut(ctx, u)
}

func (v *invocation) giveUp(ctx context.Context, w intake.Work, reason, why string) (intake.Disposition, error) {
	u, d, err := v.lookUp(ctx, w)
	if u == nil || err != nil {
		return d, err
	}
	return v.endAll(ctx, u, reason, why)
}

func (v *invocation) endAll(ctx context.Context, u *unit, reason, why string) (intake.Disposition, error) {
	for _, j := range u.jobs {
		j.verdict = verdict.Dead{Reason: reason, Why: why}
	}
	if d, ok, err := v.claim(ctx, u); !ok || err != nil {
		return d, err
	}
	return executor{v}.carryOut(ctx, u)
}

// lookUp reads the records of a delivery, completes what earlier receives of its message have
// begun, and lists the remaining targets. It returns nil if nothing is to be done, or not now.
func (v *invocation) lookUp(ctx context.Context, w intake.Work) (*unit, intake.Disposition, error) {
	p, ok := v.Protocols.Of(w.Message.Activity.Protocol)
	if !ok {
		d, err := v.intake.Reject(ctx, w.From, w.Received, "protocol", fmt.Errorf("protocol %q is not configured", w.Message.Activity.Protocol))
		return nil, d, err
	}
	u, lot := newUnit(w, p.Delivery), lots{v.Engine}
	if v.kept.has(u.id) {
		return nil, intake.Again(keptRenewal), nil
	}
	var err error
	u.looked = v.Now()
	if u.known, err = v.inspect(ctx, u.id); err != nil {
		return nil, intake.Disposition{}, err
	}
	// A missing body is no error yet: the activity may be forgotten, or all targets may be
	// final.
	if u.a, err = v.bodies.Load(ctx, u.a); errors.Is(err, ledger.ErrNoBody) {
		u.gone = err
	} else if err != nil {
		return nil, intake.Disposition{}, err
	}
	v.feed.addRecorded(u)
	if until := u.known.Claimed; until.After(v.Now()) {
		// This wait comes also if nothing is left to send: the claimant's journal is read when its
		// claim is over.
		return nil, intake.Again(v.claimedElsewhere(u, until)), nil
	}
	u.list()
	if err := lot.finishParking(ctx, u); err != nil {
		return nil, intake.Disposition{}, err
	}
	if u.known.Record.Cancelled || u.a.Expired(v.Now()) {
		// Nothing is written: a cancelled or expired activity's record speaks for all
		// recipients that are not final.
		return nil, intake.Done, executor{v}.drop(ctx, u)
	}
	if u.known.Lapsed {
		if err := (executor{v}).finishLapsed(ctx, u); err != nil {
			return nil, intake.Disposition{}, err
		}
	}
	if len(u.jobs) == 0 {
		return nil, intake.Done, lot.leave(ctx, u, true)
	}
	if wait := u.d.Slot.Sub(v.Now()); wait > time.Second {
		// The ordered queue cannot delay a message, so it comes early.
		return nil, intake.Again(wait), nil
	}
	if last := u.jobs[0].last; u.single() && last.State == activity.Retrying && last.NextAttemptAt.Sub(v.Now()) > time.Second {
		// A second copy of the message that waits for the next attempt.
		return nil, intake.Again(v.delayed(last.NextAttemptAt)), nil
	}
	return u, intake.Disposition{}, v.feed.writeFormer(ctx, u)
}

// inspect reads a unit. If another process's claim has lapsed, the table may have been
// unreachable, and that process be about to record what it has kept: inspect waits and reads
// again.
func (v *invocation) inspect(ctx context.Context, u message.Unit) (ledger.Known, error) {
	known, err := v.Ledger.Inspect(ctx, u)
	if err != nil || !known.Lapsed || v.Worker != "" || v.Limits.Quiet == 0 || !pause(ctx, 10*keptPause) {
		return known, err
	}
	return v.Ledger.Inspect(ctx, u)
}

// claimedElsewhere is how long a message waits for another worker's claim to end. Most claims
// end long before they lapse, so the first wait is short. Later waits grow, so that a dead
// worker does not use up the message's receives.
func (v *invocation) claimedElsewhere(u *unit, until time.Time) time.Duration {
	const most = 30 * time.Second
	wait := time.Second << min(max(0, u.Received.ReceiveCount-1), 5)
	return min(v.delayed(until)+time.Second, intake.Jitter(min(wait, most), v.Random()))
}

// decide decides about each target before anything is claimed. What costs a read is looked up
// only for targets that would be attempted otherwise.
func (v *invocation) decide(ctx context.Context, u *unit) error {
	open, err := v.look(ctx, u)
	if err != nil || len(open) == 0 {
		return err
	}
	for _, look := range []func(context.Context, *unit, []seen) error{v.lookForNewer, v.checkLimits} {
		if err := look(ctx, u, open); err != nil {
			return err
		}
		for i := range open {
			open[i].judge()
		}
	}
	return nil
}

// needsClaim reports whether the unit has to be claimed. If all its targets are parked for the
// first time, it needs neither claim nor record: the spots say everything, for one write each.
func (u *unit) needsClaim() bool {
	for _, j := range u.jobs {
		p, parked := j.verdict.(verdict.Park)
		if !parked || j.recorded() || (u.d.Generation > 0 && !u.a.Ordered()) {
			return true
		}
		if circuit.OfSigningKey(p.Under) || p.Alone {
			return true // without a record, a view would not look for this spot
		}
	}
	return false
}

// claim claims the unit, and drops jobs that other workers have taken meanwhile. If it returns
// false, the disposition is that of the message.
func (v *invocation) claim(ctx context.Context, u *unit) (intake.Disposition, bool, error) {
	u.known.Journal = v.journal.name
	claim, err := v.Ledger.Claim(ctx, u.id, u.known, v.Worker+intake.Receipt(u.Received), v.claimedUntil())
	switch {
	case errors.Is(err, ledger.ErrStale):
		return intake.Done, false, lots{v.Engine}.leave(ctx, u, true)
	case errors.Is(err, ledger.ErrClaimed):
		return intake.Again(intake.Jitter(5*time.Second, v.Random())), false, nil
	case err != nil:
		return intake.Disposition{}, false, err
	}
	u.claim = claim
	if u.single() {
		return intake.Disposition{}, true, nil
	}
	var mine []*job
	for _, j := range u.jobs {
		if _, taken := claim.Known.Recipients[j.position]; !taken {
			mine = append(mine, j)
		}
	}
	u.jobs = mine
	return intake.Disposition{}, true, nil
}

// attemptAll makes the attempts of a unit and classifies each. Its loop calls no queue and no
// table: all answers wait for it.
func (v *invocation) attemptAll(ctx context.Context, u *unit) {
	for j := range v.outcomes(ctx, u) {
		v.classify(ctx, u, j)
		v.journal.add(u, j)
	}
}

func (v *invocation) classify(ctx context.Context, u *unit, j *job) {
	if !j.due() {
		return // parked or refused meanwhile, or not begun
	}
	s := v.snapshot(u, j)
	j.verdict = verdict.Classify(&s, j.named(), j.out)
	if j.out.Try == outcome.Waiting {
		j.out = outcome.Outcome{} // nothing was tried
		return
	}
	v.report(ctx, u, j)
}
