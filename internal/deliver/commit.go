package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
)

// commit carries out what was decided about the targets of a claimed unit, and then
// records it. Outcomes that are final do not wait for that: the journal has them.
func (u *unit) commit(ctx context.Context) (disposition, error) {
	u.settleHosts(ctx)
	if err := u.storeOnce(ctx); err != nil {
		return disposition{}, err
	}
	if err := errors.Join(u.park(ctx), u.addDeadLetters(ctx), u.splitOff(ctx), u.note(ctx), u.keepForRetry(ctx, u.refused())); err != nil {
		// The claim is left to lapse. The next worker begins with what the journal has.
		return disposition{}, err
	}
	u.keep(ctx)
	begun, err := u.record(ctx)
	if err != nil {
		if errors.Is(err, ledger.ErrClaimed) {
			u.Log.WarnContext(ctx, "a claim was lost to another worker before its outcomes were recorded", "activity", u.a.ID, "chunk", u.d.Chunk)
		}
		return disposition{}, fmt.Errorf("record outcomes: %w", err)
	}
	if !begun {
		return again(0), nil
	}
	if !u.single() {
		return done, nil
	}
	j := u.jobs[0]
	if j.state == activity.Retrying {
		return again(u.delayed(j.next)), nil
	}
	if j.state.Final() {
		return done, u.leave(ctx, false)
	}
	return done, nil
}

// settleHosts waits until the lessons of this unit about its hosts are saved. A host's
// shared state has to have an open circuit before it says that deliveries are parked, or
// the scheduled function would release them at once.
func (u *unit) settleHosts(ctx context.Context) {
	if !u.route.Policy.Circuit {
		return
	}
	for _, j := range u.jobs {
		keys := []string{circuit.HostKey(j.host)}
		if j.out.Class == outcome.Unverified {
			keys = append(keys, circuit.InboxKey(u.signed(j.target).Inbox))
		}
		for _, key := range keys {
			if err := u.Hosts.Settle(ctx, key); err != nil {
				u.Log.WarnContext(ctx, "the circuits of other processes know less for now", "activity", u.a.ID, "error", err)
			}
		}
	}
}

// keep sets how long an activity to one target can still be looked up, if its protocol says
// so. A failure is only logged; the final state is recorded all the same.
func (u *unit) keep(ctx context.Context) {
	r := &u.claim.Known.Record
	if len(u.jobs) != 1 || r.Targets != 1 || !u.jobs[0].state.Final() {
		return
	}
	keep := u.route.KeepFailed
	if u.jobs[0].state == activity.Delivered {
		keep = u.route.KeepDelivered
	}
	if keep == 0 {
		return
	}
	until := u.Now().Add(keep)
	if err := u.Ledger.KeepActivity(ctx, u.a.ID, until); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		u.Log.WarnContext(ctx, "a record is kept for another time than its protocol says", "activity", u.a.ID, "error", err)
		return
	}
	if until.After(r.Forget) {
		r.Forget = until // the chunk's own record must not end before
	}
}

// record records all decisions and ends the claim. begun is false if the unit has targets
// whose attempts have not begun.
func (u *unit) record(ctx context.Context) (begun bool, err error) {
	rs := []ledger.Recipient{}
	begun = true
	for _, j := range u.jobs {
		if j.state == "" {
			begun = false
			continue
		}
		rs = append(rs, u.recipient(j))
	}
	if err := u.repeated(ctx, func() error { return u.Ledger.Record(ctx, &u.claim, rs, true) }); err != nil {
		return begun, err
	}
	u.tell(rs...)
	u.mayBeDone()
	noted := u.journal.end(u)
	u.Meter.Recorded(slices.DeleteFunc(rs, func(r ledger.Recipient) bool { return noted[r.Position] }))
	return begun, nil
}

// recipient is the record of j.
func (u *unit) recipient(j *job) ledger.Recipient {
	r := ledger.Recipient{
		Chunk: u.d.Chunk, Position: j.position, Target: j.target, State: j.state,
		Attempts: j.attempts, Unsent: j.unsent, LastStatus: j.out.Status, LastError: j.out.Err, Response: j.out.Response,
		Note: j.out.Note, NextAttemptAt: j.next, UpdatedAt: u.Now(), Generation: u.d.Generation, By: j.by,
	}
	if j.note != "" {
		r.Note = j.note
	}
	if j.state != activity.Delivered || j.tried.Several() {
		r.Tries = j.tried // who gets through at first has none, which costs nothing
	}
	if j.out.Discard && j.state.Final() {
		// The protocol keeps no details. The final state is recorded all the same.
		r.LastStatus, r.LastError, r.Response, r.Note, r.Tries = 0, "", "", "", ""
		if j.state == activity.Failed {
			r.Note = discarded
		}
		return r
	}
	if r.LastError == "" && !j.state.Final() {
		r.LastStatus, r.LastError, r.Response = j.last.LastStatus, j.last.LastError, j.last.Response
	}
	if j.state == activity.Parked {
		r.Generation, r.Lot = u.spotGeneration(), ledger.LotName(j.target.Inbox, j.lot)
	}
	return r
}

// discarded is the note of a failure whose details the protocol does not keep.
const discarded = "removed by its protocol; the log has the error"

// addDeadLetters writes a dead letter for each delivery that is given up.
func (u *unit) addDeadLetters(ctx context.Context) error {
	var ds []Death
	for _, j := range u.jobs {
		if j.state == activity.Dead {
			ds = append(ds, Death{Activity: u.a, Recipient: u.recipient(j), Reason: j.reason, Revive: j.revive})
		}
	}
	if len(ds) == 0 {
		return nil
	}
	if err := u.expectReturn(ctx); err != nil {
		return err
	}
	if err := u.DeadLetters.Add(ctx, ds); err != nil {
		return fmt.Errorf("add dead letters: %w", err)
	}
	if err := u.lookForReturn(ctx); err != nil {
		return err
	}
	u.Meter.Counted("Dead", len(ds))
	return nil
}

// splitOff sends each failed target of a chunk as a message of its own, so that
// its retries never touch its neighbours. From then on that message's visibility
// timeout is the back-off.
func (u *unit) splitOff(ctx context.Context) error {
	if u.single() {
		return nil
	}
	var ds []message.Delivery
	var waits []time.Duration
	for _, j := range u.jobs {
		if j.state == activity.Retrying {
			ds = append(ds, u.one(j, u.d.Generation))
			waits = append(waits, u.delayed(j.next))
		}
	}
	if len(ds) == 0 {
		return nil
	}
	if err := u.send(ctx, u.m, u.a, ds, waits); err != nil {
		return fmt.Errorf("split off failed deliveries: %w", err)
	}
	return nil
}

// note tells the coalescer which inboxes now have this activity.
func (u *unit) note(ctx context.Context) error {
	var ts []activity.Target
	for _, j := range u.jobs {
		if j.state == activity.Delivered {
			ts = append(ts, j.target)
		}
	}
	return u.noteDelivered(ctx, ts)
}

// noteKnown tells the coalescer what a worker delivered that did not end its claim. The
// worker noted it in its journal, and may have died before it told the coalescer.
func (u *unit) noteKnown(ctx context.Context) error {
	var ts []activity.Target
	for i, t := range u.d.Targets {
		if u.single() {
			i = u.d.Position
		}
		if u.known.Recipients[i].State == activity.Delivered {
			ts = append(ts, t)
		}
	}
	return u.noteDelivered(ctx, ts)
}

func (u *unit) noteDelivered(ctx context.Context, ts []activity.Target) error {
	if len(ts) == 0 || u.Coalesce == nil || u.a.Coalesce != activity.CoalesceLatest {
		return nil
	}
	if err := u.Coalesce.Delivered(ctx, u.a, ts); err != nil {
		return fmt.Errorf("note what was delivered: %w", err)
	}
	return nil
}

// leave gives up the parking spot that an ordered delivery has kept since its
// release, and releases the next delivery of its group. wasOver: the delivery had its end
// before this message came.
func (u *unit) leave(ctx context.Context, wasOver bool) error {
	if !u.a.Ordered() || u.d.Generation == 0 || !u.single() {
		return nil
	}
	return u.leaveGroup(ctx, wasOver)
}

// giveUp writes dead letters for all targets of a message, without an attempt.
func (v *invocation) giveUp(ctx context.Context, m queue.Received, a activity.Activity, d message.Delivery, reason, why string) (disposition, error) {
	u, f, err := v.take(ctx, m, a, d)
	if u == nil || err != nil {
		return f, err
	}
	return u.giveUpAll(ctx, reason, why)
}

// giveUpAll gives up all targets of the unit, without an attempt.
func (u *unit) giveUpAll(ctx context.Context, reason, why string) (disposition, error) {
	for _, j := range u.jobs {
		u.exhaust(ctx, j, reason, why)
	}
	if f, ok, err := u.hold(ctx); !ok || err != nil {
		return f, err
	}
	return u.commit(ctx)
}
