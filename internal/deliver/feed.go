package deliver

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
)

// feed collects the events of an invocation's units, to write many at once. Messages are
// acknowledged after that write. After a crash the message comes back, and finds its recipients
// recorded.
type feed struct {
	*Engine
	from queue.Name

	mu        sync.Mutex
	unwritten []unwritten
	over      []activity.ID // activities that may be done
	large     []activity.ID // of several chunks, some of whose recipients have finished
}

// unwritten are events of a message that are not written yet.
type unwritten struct {
	message queue.Received
	ends    []events.End
}

func (f *feed) add(u *unit, rs ...ledger.Recipient) {
	ends := f.ends(u, rs...)
	if len(ends) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unwritten = append(f.unwritten, unwritten{u.Received, ends})
}

// ends lists the events of recipients of u.
func (f *feed) ends(u *unit, rs ...ledger.Recipient) (ends []events.End) {
	if f.Events == nil || u.route.Quiet {
		return nil
	}
	var about *events.About
	for _, r := range rs {
		if at := r.Position; u.single() {
			r.Target = u.d.Targets[0]
		} else if at < len(u.d.Targets) {
			r.Target = u.d.Targets[at]
		}
		if about == nil && r.State.Final() && r.State != activity.Delivered {
			about = new(events.About)
			*about = intake.About(f.Protocols, u.a)
		}
		if about == nil {
			continue
		}
		r.Chunk = u.d.Chunk
		if e, ok := events.EndOf(u.a.ID, *about, r); ok {
			ends = append(ends, e)
		}
	}
	return ends
}

// unwrittenFor is how long after an end its event may still be missing: until its message is
// received again.
const unwrittenFor = queue.MaxVisibility

// writeFormer writes the event of the former end of a delivery that is tried anew, if it may be
// missing: the record will say what becomes of the new try.
func (f *feed) writeFormer(ctx context.Context, u *unit) error {
	if !u.single() {
		return nil
	}
	r, ok := u.known.Recipients[u.d.Position]
	if !ok || !r.RevivedBy(u.d.Generation) || f.Now().Sub(r.UpdatedAt) > unwrittenFor {
		return nil
	}
	r.Position = u.d.Position
	if ends := f.ends(u, r); len(ends) > 0 {
		return repeated(ctx, func() error { return f.Events.AppendEnds(ctx, ends) })
	}
	return nil
}

// addRecorded adds the events of recipients that an earlier worker has recorded, in case it died
// before writing them. Targets with messages of their own are left to those.
func (f *feed) addRecorded(u *unit) {
	for _, position := range slices.Sorted(maps.Keys(u.known.Recipients)) {
		r := u.known.Recipients[position]
		revived := u.d.Generation > r.Generation // dead or failed, and tried anew
		if u.single() && (position != u.d.Position || revived) || !u.single() && r.Own {
			continue
		}
		r.Position = position
		f.add(u, r)
	}
}

// mayBeDone remembers that all recipients of u are final, if u may be the last unit of its
// activity. A large activity is checked when none of its recipients has finished for
// Limits.Quiet.
func (f *feed) mayBeDone(u *unit) {
	large := u.known.Record.Chunks() > 1
	if !u.a.Notify || f.Events == nil || large && f.Limits.Quiet == 0 {
		return
	}
	for _, j := range u.jobs {
		if !verdict.State(j.verdict).Final() {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if large {
		f.large = append(f.large, u.a.ID)
	} else {
		f.over = append(f.over, u.a.ID)
	}
}

// close writes the events of a batch, and returns the messages that have to come back because
// that failed. Then it checks which activities are done.
func (f *feed) close(ctx context.Context) (back []queue.Received) {
	given := ctx
	ctx, cancel := f.closing(ctx)
	defer cancel()
	f.mu.Lock()
	all, over, large := f.unwritten, f.over, f.large
	f.mu.Unlock()
	var ends []events.End
	for _, one := range all {
		ends = append(ends, one.ends...)
	}
	var err error
	if len(ends) > 0 {
		err = repeated(ctx, func() error { return f.Events.AppendEnds(ctx, ends) })
	}
	slices.Sort(over)
	for _, id := range slices.Compact(over) {
		f.finish(ctx, id)
	}
	for _, id := range large {
		f.quiet.look(id, f.Limits.Quiet, func() { f.finish(context.WithoutCancel(ctx), id) })
	}
	if err == nil {
		return nil
	}
	// Last, because this may take minutes.
	f.Log.ErrorContext(ctx, "events could not be written; their messages are received again", "queue", f.from, "events", len(ends), "error", err)
	return f.comeBack(given, all, err)
}

// finish writes the event that an activity is done, if it is. After an error the schedule
// repeats it.
func (f *feed) finish(ctx context.Context, id activity.ID) {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := f.Events.Finish(ctx, id); err != nil {
		f.Log.WarnContext(ctx, "could not check whether an activity is done; the schedule checks again", "activity", id, "error", err)
	}
}

// finishTime bounds one check, which reads all chunks.
const finishTime = 30 * time.Second

// comeBack returns messages to their queue whose events could not be written.
func (f *feed) comeBack(ctx context.Context, all []unwritten, err error) (back []queue.Received) {
	in, from := f.intake, f.from
	done := map[string]bool{} // by handle
	for _, one := range all {
		m := one.message
		if done[m.Handle] {
			continue
		}
		done[m.Handle] = true
		d := in.Trouble(from, m)
		if in.NeedsRenewal(from, m) {
			once, cancel := f.closing(ctx)
			d, err := in.Renew(once, from, m, d, err)
			cancel()
			if err == nil && d.Done {
				continue
			}
		}
		f.handBack(ctx, from, m, d)
		back = append(back, m)
	}
	return back
}
