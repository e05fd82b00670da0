package enqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
)

// SendError says that a valid request could not be put on a queue or in the
// agenda.
type SendError struct {
	Err error
	// MaybeSent: the answer to the send was lost, so the activity may be queued. A retry
	// without a deduplication key may send it twice.
	MaybeSent bool
}

func (e *SendError) Error() string {
	if e.MaybeSent {
		return "activity may or may not have been queued: " + e.Err.Error()
	}
	return "activity was not queued: " + e.Err.Error()
}

func (e *SendError) Unwrap() error { return e.Err }

// receipt is the result of an accepted call.
type receipt struct {
	base      activity.ID
	duplicate bool
}

func (r receipt) results(p *plan) []Result {
	rs := make([]Result, len(p.items))
	for i, it := range p.items {
		rs[i] = Result{ID: activity.InBatch(r.base, i), Status: Queued, Recipients: it.recipients}
		if r.duplicate {
			rs[i].Status = Duplicate
		}
	}
	return rs
}

// accept sends the call without deduplication if it has no key, else with the queue's own
// deduplication where that suffices, else with a marker.
func (s *Service) accept(ctx context.Context, p *plan) (receipt, error) {
	ctx, done := detach(ctx)
	defer done()
	// After its lease a request could undo what another call did under the same key.
	ctx, cancel := context.WithTimeout(ctx, dedup.Patience)
	defer cancel()
	if p.key == nil {
		return s.unkeyed(ctx, p)
	}
	if p.caps.NativeDeduplication && !p.later() && p.ttl <= queue.DedupWindow {
		if known, err := s.o.Markers.Known(ctx, p.name()); err != nil {
			return receipt{}, err
		} else if !known {
			return s.native(ctx, p)
		}
	}
	return s.marked(ctx, p)
}

// detach keeps ctx's values and deadline, but not its cancellation: a client that
// disconnects must not leave its call half done.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	detached := context.WithoutCancel(ctx)
	if t, ok := ctx.Deadline(); ok {
		return context.WithDeadline(detached, t)
	}
	return detached, func() {}
}

// afterTimeout bounds the clean-up after a failed call, whose own deadline may
// have passed.
const afterTimeout = 5 * time.Second

// now is the time cut to the millisecond, the precision of ids and records.
func (s *Service) now() time.Time { return s.o.Now().UTC().Truncate(time.Millisecond) }

func (s *Service) unkeyed(ctx context.Context, p *plan) (receipt, error) {
	at := s.now()
	base, err := activity.NewID(at, s.o.Entropy)
	if err != nil {
		return receipt{}, &SendError{Err: err}
	}
	if err := s.hand(ctx, p, base, at, 0); err != nil {
		if !err.MaybeSent {
			s.drop(ctx, p, base)
		}
		return receipt{}, err
	}
	return receipt{base: base}, nil
}

// marked takes a lease on the key: for queues that do not deduplicate, and for windows
// longer than the queue's own. On an ordered queue the call also creates the record of
// native calls, so that native and marked calls with one key find each other.
func (s *Service) marked(ctx context.Context, p *plan) (receipt, error) {
	at := s.now()
	base, err := s.newID(p, at)
	if err != nil {
		return receipt{}, &SendError{Err: err}
	}
	lease, err := s.o.Markers.Reserve(ctx, dedup.Claim{
		Name: p.name(), ID: base, At: at, Fingerprint: p.fingerprint, Delay: p.delay, TTL: p.ttl,
	})
	var dup *dedup.DuplicateError
	switch {
	case errors.As(err, &dup):
		return receipt{base: dup.ID, duplicate: true}, nil
	case errors.Is(err, dedup.ErrOver), ctx.Err() != nil && err != nil:
		return receipt{}, &SendError{Err: err}
	case err != nil:
		return receipt{}, err
	}
	// After a take-over, id and time are the first holder's, so records and message are the
	// same as the first holder's.
	from, duplicate := 0, false
	if p.caps.NativeDeduplication {
		from = 1
		if duplicate, err = s.sharedRecord(ctx, p, lease); err != nil {
			s.giveBack(ctx, p, lease)
			return receipt{}, err
		}
	}
	base, at = lease.ID(), lease.At()
	if err := s.hand(ctx, p, base, at, from); err != nil {
		if !err.MaybeSent {
			s.giveBack(ctx, p, lease)
		}
		return receipt{}, err
	}
	if err := lease.Confirm(ctx); err != nil {
		s.o.Log.WarnContext(ctx, "activity is queued, but its deduplication key is not confirmed; a retry will find the same activity",
			"activity", base, "error", err)
	}
	if duplicate {
		s.o.Markers.Hit()
	}
	return receipt{base: base, duplicate: duplicate}, nil
}

// newID is the id of the call's activity if the call is the first with its key.
func (s *Service) newID(p *plan, at time.Time) (activity.ID, error) {
	if p.caps.NativeDeduplication {
		id, _ := p.periodIDs(at)
		return id, nil
	}
	return activity.NewID(at, s.o.Entropy)
}

// sharedRecord creates the record of the lease's activity. If a native call with the same
// key was first, the lease adopts that call's activity, and this call is a duplicate.
func (s *Service) sharedRecord(ctx context.Context, p *plan, lease *dedup.Lease) (duplicate bool, err error) {
	existing, created, err := s.createOrdered(ctx, p, lease.ID(), lease.At())
	switch {
	case err != nil:
		return false, err
	case created:
		return false, nil
	case existing.Fingerprint != p.fingerprint:
		return false, &dedup.MismatchError{ID: existing.ID}
	}
	duplicate = existing.ID != lease.ID() || !lease.TakenOver
	lease.Adopt(existing.ID, existing.CreatedAt)
	return duplicate, nil
}

// periodIDs derives ids from the plan's key and a period of five minutes: own for the
// period of at, prev for the period before.
func (p *plan) periodIDs(at time.Time) (own, prev activity.ID) {
	start, name := at.Truncate(queue.DedupWindow), p.name().Hash()
	return activity.DerivedID(start, name), activity.DerivedID(start.Add(-queue.DedupWindow), name)
}

// createOrdered creates the first record of a call, or returns the record of an earlier
// call with the same key. If the table is down and the fallback is open, the call counts as
// the first, without a record.
func (s *Service) createOrdered(ctx context.Context, p *plan, base activity.ID, at time.Time) (existing ledger.Record, created bool, err error) {
	first := p.records(base, at, s.o.Retention)[0]
	_, prev := p.periodIDs(at)
	contested := s.now().Sub(at.Truncate(queue.DedupWindow)) < contestedFor
	brief, cancel := s.o.Markers.Brief(ctx)
	defer cancel()
	existing, created, err = s.o.Ledger.CreateOrdered(brief, first, prev, at.Add(-queue.DedupWindow), contested)
	if err == nil {
		return existing, created, nil
	}
	if !s.o.Markers.Open() || ctx.Err() != nil {
		return existing, false, &SendError{Err: fmt.Errorf("record activity: %w", err)}
	}
	s.o.Log.DebugContext(ctx, "records cannot be read, going on without", "error", err)
	p.unrecorded = true
	return first, true, nil
}

// giveBack frees the key after a definite failure, while the lease lasts. It frees the key
// before it removes the records: if no other call has taken the key over, no other call uses
// the records.
func (s *Service) giveBack(ctx context.Context, p *plan, lease *dedup.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(afterTimeout, lease.Left()))
	defer cancel()
	dead, err := lease.GiveBack(ctx)
	if err != nil {
		s.o.Log.WarnContext(ctx, "deduplication key was not released; it can be used again when its lease ends",
			"activity", lease.ID(), "error", err)
	}
	// On an ordered queue (sharedRecord) another call with the same key may have
	// found this call's record and sent its activity.
	if dead && !p.caps.NativeDeduplication {
		s.drop(ctx, p, lease.ID())
	}
}

// drop removes the records of activities that will never be sent.
func (s *Service) drop(ctx context.Context, p *plan, base activity.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTimeout)
	defer cancel()
	for i := range p.items {
		id := activity.InBatch(base, i)
		if err := s.o.Ledger.DropActivity(ctx, id); err != nil {
			s.o.Log.WarnContext(ctx, "record of an activity that was not queued stays until it expires",
				"activity", id, "error", err)
			return
		}
	}
}

// contestedFor is how long into a period a call of the period before may still run: API
// Gateway's limit of 29 s, plus clock skew.
const contestedFor = 35 * time.Second

// native leaves deduplication to the queue and writes no marker.
//
// The queue drops a duplicate silently, so the record shows whether a call is the first. The
// record's id is derived from the key and the current period of five minutes; a record of the
// period before counts while it is younger than the queue's window. The queue deduplicates by
// that id. By the bare key it would drop a new activity if a duplicate was sent less than five
// minutes ago.
//
// A duplicate is sent, too: the first call may have died between record and send. If it has
// not, the queue drops the copy.
func (s *Service) native(ctx context.Context, p *plan) (receipt, error) {
	at := s.now()
	base, _ := p.periodIDs(at)
	existing, created, err := s.createOrdered(ctx, p, base, at)
	if err != nil {
		return receipt{}, err
	}
	if p.unrecorded {
		s.o.Markers.FellBack()
	}
	if !created {
		if existing.Fingerprint != p.fingerprint {
			return receipt{}, &dedup.MismatchError{ID: existing.ID}
		}
		base, at = existing.ID, existing.CreatedAt
	}
	// The record stays even after a definite failure: a concurrent call with the same key may
	// have found it and sent its activity. Until it expires, a retry with the key finds it and
	// sends.
	if err := s.hand(ctx, p, base, at, 1); err != nil {
		return receipt{}, err
	}
	if !created {
		s.o.Markers.Hit()
	}
	return receipt{base: base, duplicate: !created}, nil
}
