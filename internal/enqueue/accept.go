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

// SendError says that a request, in order in itself, could not be handed on.
type SendError struct {
	Err error
	// MaybeSent: nothing is known, because an answer was lost. A caller without
	// a deduplication key that tries again may cause a duplicate.
	MaybeSent bool
}

func (e *SendError) Error() string {
	if e.MaybeSent {
		return "activity may or may not have been queued: " + e.Err.Error()
	}
	return "activity was not queued: " + e.Err.Error()
}

func (e *SendError) Unwrap() error { return e.Err }

// receipt is how a call ended.
type receipt struct {
	base      activity.ID
	duplicate bool
}

func (r receipt) results(p *plan) []Result {
	rs := make([]Result, len(p.items))
	for i, it := range p.items {
		rs[i] = Result{ID: p.id(r.base, i), Status: Queued, Recipients: it.recipients}
		if r.duplicate {
			rs[i].Status = Duplicate
		}
	}
	return rs
}

// accept takes one of three ways, by what the queue can do itself.
func (s *Service) accept(ctx context.Context, p *plan) (receipt, error) {
	ctx, done := detach(ctx)
	defer done()
	// A request that outlived its lease could undo what another call has done
	// under the same key.
	ctx, cancel := context.WithTimeout(ctx, s.o.Markers.Patience())
	defer cancel()
	switch {
	case p.key == nil:
		return s.unkeyed(ctx, p)
	case p.caps.NativeDeduplication && !p.later() && p.ttl <= queue.DedupWindow && !s.o.Markers.Known(ctx, p.name()):
		return s.native(ctx, p)
	default:
		return s.marked(ctx, p)
	}
}

// detach keeps ctx's values and deadline, but not its cancellation: a client
// that hangs up in the middle must not leave its call in an unknown state.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	detached := context.WithoutCancel(ctx)
	if t, ok := ctx.Deadline(); ok {
		return context.WithDeadline(detached, t)
	}
	return detached, func() {}
}

// afterTimeout is how long tidying up after a failed call may take, when the
// call's own deadline may have passed.
const afterTimeout = 5 * time.Second

// now is the time to the millisecond, which is what ids and records keep.
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

// marked is for queues that do not deduplicate, or not for as long as asked. In
// the latter case the call is known by its record, too, as calls are that ask for
// the queue's own window (native): whoever comes second finds the first by the
// marker or by the record, so the key has one answer.
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
	// On a take-over, id and time are the first holder's: records and message
	// come out the same.
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
		s.o.Markers.NativeHit()
	}
	return receipt{base: base, duplicate: duplicate}, nil
}

// newID returns the id of a call that turns out to be the first with its key.
func (s *Service) newID(p *plan, at time.Time) (activity.ID, error) {
	if p.caps.NativeDeduplication {
		id, _ := p.periodIDs(at)
		return id, nil
	}
	return activity.NewID(at, s.o.Entropy)
}

// sharedRecord creates the record of a lease's activity, unless a call that asked
// for the queue's own window has made an activity of the same key: that one is
// then the lease's, and the call a duplicate.
func (s *Service) sharedRecord(ctx context.Context, p *plan, lease *dedup.Lease) (duplicate bool, err error) {
	existing, created, err := s.createOrdered(ctx, p, lease.ID(), lease.At())
	switch {
	case err != nil:
		return false, err
	case created:
		return false, nil
	case existing.Fingerprint != p.fingerprint:
		return false, s.o.Markers.NativeMismatch(existing.ID)
	}
	duplicate = existing.ID != lease.ID() || !lease.TakenOver
	lease.Adopt(existing.ID, existing.CreatedAt)
	return duplicate, nil
}

// periodIDs are the ids that stand for the plan's key in the period of five
// minutes that a time is in, and in the one before.
func (p *plan) periodIDs(at time.Time) (own, prev activity.ID) {
	start, name := at.Truncate(queue.DedupWindow), p.name().Hash()
	return activity.DerivedID(start, name), activity.DerivedID(start.Add(-queue.DedupWindow), name)
}

// createOrdered creates the first record of a call, or returns that of the call
// with the same key that was first. With the open fallback, a table that is down
// makes the call the first, without a record.
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

// giveBack frees the key after a definite failure, within the lease. That the
// key comes first matters: only when no other call can have taken it over are
// the records nobody's.
func (s *Service) giveBack(ctx context.Context, p *plan, lease *dedup.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(afterTimeout, lease.Left()))
	defer cancel()
	dead, err := lease.GiveBack(ctx)
	if err != nil {
		s.o.Log.WarnContext(ctx, "deduplication key was not released; it can be used again when its lease ends",
			"activity", lease.ID(), "error", err)
	}
	// Where records are shared (sharedRecord), another call with the same key may
	// have found this one's and sent.
	if dead && !p.caps.NativeDeduplication {
		s.drop(ctx, p, lease.ID())
	}
}

// drop removes the records of an activity that nobody will ever send.
func (s *Service) drop(ctx context.Context, p *plan, base activity.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTimeout)
	defer cancel()
	for i := range p.items {
		id := p.id(base, i)
		if err := s.o.Ledger.DropActivity(ctx, id); err != nil {
			s.o.Log.WarnContext(ctx, "record of an activity that was not queued stays until it expires",
				"activity", id, "error", err)
			return
		}
	}
}

// contestedFor is how long after the turn of a period a call from before it may
// still be under way: API Gateway's time limit and some difference of clocks.
const contestedFor = 35 * time.Second

// native leaves the check to the queue: no marker is written.
//
// The queue drops a duplicate without saying so, so the call's record, which is
// written anyway, is what tells: its id is derived from the key and the period
// of five minutes, and a record of the period before counts while it is younger
// than the queue's window. That id, and not the bare key, is what the queue
// deduplicates by: the queue would otherwise drop a new activity whose key was
// last re-sent less than five minutes ago.
//
// A duplicate is sent again all the same: the first call may have died between
// record and send, and the queue drops the copy if it has not.
func (s *Service) native(ctx context.Context, p *plan) (receipt, error) {
	at := s.now()
	base, _ := p.periodIDs(at)
	existing, created, err := s.createOrdered(ctx, p, base, at)
	if err != nil {
		return receipt{}, err
	}
	if p.unrecorded {
		s.o.Markers.NativeFallback()
	}
	if !created {
		if existing.Fingerprint != p.fingerprint {
			return receipt{}, s.o.Markers.NativeMismatch(existing.ID)
		}
		base, at = existing.ID, existing.CreatedAt
	}
	// After a failure the record stays, even a definite one: a concurrent call
	// with the same key may have found it and sent. It expires, and a retry with
	// the key finds it and sends.
	if err := s.hand(ctx, p, base, at, 1); err != nil {
		return receipt{}, err
	}
	if !created {
		s.o.Markers.NativeHit()
	}
	return receipt{base: base, duplicate: !created}, nil
}
