package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
)

// executor carries verdicts out: effects first, then the record. Besides claims and the journal
// it is all that writes on the path of a delivery.
type executor struct{ *invocation }

// carryOut carries out the verdicts of a claimed unit and records them. Final outcomes are in
// the journal already.
func (x executor) carryOut(ctx context.Context, u *unit) (intake.Disposition, error) {
	x.settleHosts(ctx, u)
	begun := false
	record := func(ctx context.Context, u *unit) (err error) {
		x.keep(ctx, u)
		begun, err = x.record(ctx, u)
		return err
	}
	effects := []step{lots{x.Engine}.park, deaths{x.Engine}.add, x.splitOff, x.coalesceDelivered, x.keepForRetry}
	for _, steps := range [][]step{{x.storeOnce}, effects, {record}} {
		// After an error the claim lapses, and the next worker begins with what the journal
		// has.
		if err := x.insist(ctx, u, steps...); err != nil {
			return intake.Disposition{}, fmt.Errorf("carry out what became of activity %s, chunk %d: %w", u.a.ID, u.d.Chunk, err)
		}
	}
	if !begun {
		return intake.Again(0), nil
	}
	if !u.single() {
		return intake.Done, nil
	}
	j := u.jobs[0]
	if is, waits := j.verdict.(verdict.Again); waits {
		return intake.Again(x.delayed(is.Until())), nil
	}
	if verdict.State(j.verdict).Final() || u.leaves(j) {
		leave := func(ctx context.Context, u *unit) error { return lots{x.Engine}.leave(ctx, u, false) }
		return intake.Done, x.insist(ctx, u, leave)
	}
	return intake.Done, nil
}

func (x executor) parkUnrecorded(ctx context.Context, u *unit) (intake.Disposition, error) {
	if err := x.storeOnce(ctx, u); err != nil {
		return intake.Disposition{}, err
	}
	return intake.Done, lots{x.Engine}.park(ctx, u)
}

// settleHosts waits until what this unit has shown about the hosts of its parked targets is saved: a
// circuit has to be open in the table before deliveries are parked, or the scheduled function would
// release them at once. Nothing else waits for that.
func (x executor) settleHosts(ctx context.Context, u *unit) {
	if !u.route.Policy.Circuit {
		return
	}
	var keys []string
	for _, j := range u.jobs {
		if _, parks := j.verdict.(verdict.Park); !parks {
			continue
		}
		keys = append(keys, circuit.HostKey(j.host))
		switch j.out.Class {
		case outcome.Unverified:
			keys = append(keys, circuit.SignedHostKey(j.host, u.keyDigest), circuit.SignedInboxKey(j.target.Inbox, u.keyDigest))
		case outcome.Throttled:
			keys = append(keys, circuit.InboxKey(j.target.Inbox))
		}
	}
	if err := x.Hosts.Settle(ctx, keys...); err != nil {
		x.Log.WarnContext(ctx, "the states of servers are not saved yet", "activity", u.a.ID, "error", err)
	}
}

// storeOnce stores the activity's body once if it is about to be copied for several recipients:
// into messages of those that are retried, and into items of those that are parked or dead.
func (x executor) storeOnce(ctx context.Context, u *unit) (err error) {
	messages, items := 0, 0
	for _, j := range u.jobs {
		switch j.verdict.(type) {
		case verdict.Again:
			messages++
		case verdict.Park, verdict.Dead:
			items++
		}
	}
	u.a, err = x.bodies.Apart(ctx, u.a, messages, items, u.keptUntil())
	return err
}

// splitOff sends each failed target of a chunk as a message of its own, so that its retries do
// not delay the others. That message's visibility timeout is the back-off from then on.
func (x executor) splitOff(ctx context.Context, u *unit) error {
	if u.single() {
		return nil
	}
	var ds []message.Delivery
	var waits []time.Duration
	for _, j := range u.jobs {
		if is, waiting := j.verdict.(verdict.Again); waiting {
			ds = append(ds, u.one(j, u.d.Generation))
			waits = append(waits, x.delayed(is.Until()))
		}
	}
	if len(ds) == 0 {
		return nil
	}
	errs, err := x.intake.Send(ctx, x.from, u.Received, u.a, ds, waits)
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("split off failed deliveries: %w", err)
	}
	return nil
}

func (x executor) coalesceDelivered(ctx context.Context, u *unit) error {
	var ts []activity.Target
	for _, j := range u.jobs {
		if j.verdict == (verdict.Delivered{}) {
			ts = append(ts, j.target)
		}
	}
	return x.coalesceInboxes(ctx, u, ts)
}

// coalesceInboxes records in the coalescer that inboxes have this activity.
func (x executor) coalesceInboxes(ctx context.Context, u *unit, ts []activity.Target) error {
	if len(ts) == 0 || x.Coalesce == nil || u.a.Coalesce != activity.CoalesceLatest {
		return nil
	}
	if err := x.Coalesce.Delivered(ctx, u.a, ts); err != nil {
		return fmt.Errorf("record what was delivered: %w", err)
	}
	return nil
}

// keepForRetry keeps the activity's content if recipients have failed: its message is about to
// go, and a retry needs a copy. Failures of a protocol that discards them do not count.
func (x executor) keepForRetry(ctx context.Context, u *unit) error {
	failed := func(j *job) bool { return verdict.State(j.verdict) == activity.Failed && !j.out.Discard }
	if !slices.ContainsFunc(u.jobs, failed) {
		return nil
	}
	return x.keepContent(ctx, u)
}

func (x executor) keepContent(ctx context.Context, u *unit) error {
	if err := x.Ledger.KeepContent(ctx, u.a, u.keptUntil()); err != nil {
		return fmt.Errorf("keep an activity for a retry: %w", err)
	}
	return nil
}

// finishLapsed completes what an earlier worker wrote to its journal and may have died before
// completing.
func (x executor) finishLapsed(ctx context.Context, u *unit) error {
	var ts []activity.Target
	for i, t := range u.d.Targets {
		if u.single() {
			i = u.d.Position
		}
		if u.known.Recipients[i].State == activity.Delivered {
			ts = append(ts, t)
		}
	}
	refused := false
	for _, r := range u.known.Recipients {
		refused = refused || r.State == activity.Failed && r.Note != discarded
	}
	err := x.coalesceInboxes(ctx, u, ts)
	if refused {
		err = errors.Join(err, x.keepContent(ctx, u))
	}
	return err
}

func (x executor) drop(ctx context.Context, u *unit) error {
	if u.known.Record.Forgotten {
		if err := x.bodies.Forget(ctx, u.a); err != nil {
			return err
		}
	}
	return lots{x.Engine}.leave(ctx, u, false)
}

// keep sets how long the record of an activity to one target is kept, if the protocol limits
// it. A failure is only logged.
func (x executor) keep(ctx context.Context, u *unit) {
	r := &u.claim.Known.Record
	if len(u.jobs) != 1 || r.Targets != 1 {
		return
	}
	state, keep := verdict.State(u.jobs[0].verdict), u.route.KeepFailed
	if state == activity.Delivered {
		keep = u.route.KeepDelivered
	}
	if keep == 0 || !state.Final() {
		return
	}
	until := x.Now().Add(keep)
	if err := x.Ledger.KeepActivity(ctx, u.a.ID, until); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		x.Log.WarnContext(ctx, "a record is not kept for as long as its protocol says", "activity", u.a.ID, "error", err)
		return
	}
	if until.After(r.Forget) {
		r.Forget = until // the chunk's own record must not end before
	}
}

// record records all verdicts and ends the claim. begun is false if some attempts have not begun.
func (x executor) record(ctx context.Context, u *unit) (begun bool, err error) {
	rs := []ledger.Recipient{}
	begun = true
	for _, j := range u.jobs {
		if verdict.State(j.verdict) == "" {
			begun = false
			continue
		}
		rs = append(rs, u.recipient(j, x.Now()))
	}
	if err := repeated(ctx, func() error { return x.Ledger.Record(ctx, &u.claim, rs, true) }); err != nil {
		return begun, err
	}
	x.feed.add(u, rs...)
	x.feed.mayBeDone(u)
	counted := x.journal.end(u)
	x.Meter.Recorded(slices.DeleteFunc(rs, func(r ledger.Recipient) bool { return counted[r.Position] }))
	return begun, nil
}

// step is a write to which the verdicts about a unit lead.
type step = func(context.Context, *unit) error

// insist takes steps that do not depend on each other, and repeats failed ones while the table
// cannot be written; on Lambda not longer than the invocation.
func (x executor) insist(ctx context.Context, u *unit, steps ...step) error {
	steps, err := taken(ctx, u, steps)
	if err == nil || x.kept.writable == nil {
		return err
	}
	defer x.kept.keep(u.id)()
	ctx = x.lasting(ctx)
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-keptReserve))
		defer cancel()
	}
	renewed := time.Now()
	for fails := 0; err != nil && !errors.Is(err, ledger.ErrClaimed); {
		writable := x.kept.await(ctx, keptRenewal)
		if time.Since(renewed) >= keptRenewal {
			renewed = time.Now()
			x.renew(ctx, u)
		}
		if !writable && ctx.Err() == nil {
			continue
		}
		noRoom := errors.Is(err, table.ErrDiskFull) || errors.Is(err, table.ErrReadOnly)
		if fails > keptTries && !noRoom || !pause(ctx, time.Duration(min(fails, keptTries))*keptPause) {
			return err
		}
		fails++
		try, done := context.WithTimeout(ctx, keptTry)
		steps, err = taken(try, u, steps)
		done()
	}
	return err
}

func taken(ctx context.Context, u *unit, steps []step) (failed []step, err error) {
	for _, s := range steps {
		if e := s(ctx, u); e != nil {
			failed, err = append(failed, s), errors.Join(err, e)
		}
	}
	return failed, err
}

// renew extends the visibility timeout of a kept unit's message, and its claim. Errors wait for
// the next renewal.
func (x executor) renew(ctx context.Context, u *unit) {
	ctx, cancel := context.WithTimeout(ctx, keptTry)
	defer cancel()
	hidden := x.intake.Queues(x.from).ChangeVisibility(ctx, u.Received.Handle, keptFor)
	c := u.claim
	c.Until = x.Now().Add(keptFor)
	claimed := x.Ledger.Record(ctx, &c, nil, false)
	if claimed == nil {
		u.claim.Known = c.Known // the journal reads Until meanwhile
	}
	if err := errors.Join(hidden, claimed); err != nil {
		x.Log.DebugContext(ctx, "the message or claim of a kept unit could not be renewed", "activity", u.a.ID, "chunk", u.d.Chunk, "error", err)
	}
}
