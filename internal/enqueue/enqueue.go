// Package enqueue accepts activities: it validates the whole request, makes sure
// that no other request with the same deduplication key is accepted, records the
// request, and puts it on a queue.
//
// Each call is one queue message, however many recipients or activities it has,
// so accepting is one atomic send. The process may die at any point: what is
// written before the send expires if the send never happens; what is written
// after it can be repeated. A caller that gets no answer retries with the
// same key and reaches the same activity.
package enqueue

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/message/tracing"
	"fedpost/internal/protocol"
)

// Ledger is the part of ledger.Store that accepting needs.
type Ledger interface {
	CreateActivity(ctx context.Context, r ledger.Record) error
	CreateOrdered(ctx context.Context, r ledger.Record, prev activity.ID, since time.Time, contested bool) (existing ledger.Record, created bool, err error)
	DropActivity(ctx context.Context, id activity.ID) error
	ListActivities(ctx context.Context, ls []ledger.Listed) error
}

// Agenda keeps activities that are due later than a queue can delay them.
type Agenda interface {
	PutTask(ctx context.Context, t agenda.Task) error
}

// Keys says which signing keys there are.
type Keys interface {
	Known(ctx context.Context, id string) (bool, error)
}

// Coalescer records activities that are on a queue, so that deliveries of older activities
// that they supersede are skipped. Repeating a call is harmless.
type Coalescer interface {
	Accepted(ctx context.Context, a activity.Activity, targets []activity.Target) error
}

// Meter counts accepted recipients, and other events by name.
type Meter interface {
	Counted(name string, n int)
	Flush(ctx context.Context)
	Accepted(ctx context.Context, recipients int)
}

// Limits bound one request.
type Limits struct {
	Body    int           // bytes of one activity; default 256 KiB
	Inboxes int           // targets after the shared-inbox collapse; default 50,000
	Batch   int           // activities in a batch; default 100
	Delay   time.Duration // longest delay; default 30 days
}

// Complete returns l with defaults for what is zero.
func (l Limits) Complete() Limits {
	l.Body = cmp.Or(l.Body, 256<<10)
	l.Inboxes = cmp.Or(l.Inboxes, 50_000)
	l.Batch = cmp.Or(l.Batch, 100)
	l.Delay = cmp.Or(l.Delay, 30*24*time.Hour)
	return l
}

// DefaultRetention is how long records are kept after an activity is due. Deliveries are
// tried for 7 days by default, and dead ones can be revived for 30 days after that, which
// needs the record.
const DefaultRetention = 40 * 24 * time.Hour

// Options of a Service. Coalescer, Meter and Priorities may be left out.
type Options struct {
	Protocols protocol.Set
	Queues    map[queue.Name]queue.Sender // high, normal, low and ordered
	Ledger    Ledger
	Payloads  claimcheck.Store
	Agenda    Agenda
	Keys      Keys
	Markers   *dedup.Guard
	Coalescer Coalescer
	Meter     Meter
	// Trace makes a span of each call that is sent to a queue; nil: none.
	Trace *tracing.Tracer

	Limits    Limits
	Retention time.Duration

	// Priorities maps activity types and Sipher jobs to priorities, for requests
	// that name none. Priority applies to all other types; its default is normal.
	Priorities map[string]activity.Priority
	Priority   activity.Priority

	Now     func() time.Time
	Entropy io.Reader // of ids
	Log     *slog.Logger
}

// Service accepts requests.
type Service struct {
	o          Options
	maxMessage int // larger messages go by claim check
}

func New(o Options) *Service {
	o.Limits = o.Limits.Complete()
	if o.Retention <= 0 {
		o.Retention = DefaultRetention
	}
	if !o.Priority.Valid() {
		o.Priority = activity.Normal
	}
	// Ids of one process increase even within a millisecond, so delayed activities of one
	// ordering key with the same due time are released in the order of their calls.
	o.Entropy = &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(o.Entropy, 0)}
	return &Service{o, maxMessage}
}

// Enqueue accepts one activity. It returns an *InvalidError if the request is
// wrong, a *dedup.HeldError or *dedup.MismatchError if its key is in use,
// dedup.ErrUnavailable if the key's marker cannot be written and the fallback is
// closed, and a *SendError if the activity could not be put on a queue.
func (s *Service) Enqueue(ctx context.Context, req Request) (Result, error) {
	f := newFaults()
	it, err := s.check(ctx, req, f)
	if err := f.refusal(err); err != nil {
		return Result{}, err
	}
	results, err := s.take(ctx, []item{it}, opSingle, req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy)
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// EnqueueBatch accepts all activities of a batch or none. Its errors are
// Enqueue's.
func (s *Service) EnqueueBatch(ctx context.Context, req BatchRequest) ([]Result, error) {
	f := newFaults()
	items, err := s.checkBatch(ctx, req, f)
	if err := f.refusal(err); err != nil {
		return nil, err
	}
	return s.take(ctx, items, opBatch, req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy)
}

// take accepts a call, and counts its recipients unless it is a duplicate.
func (s *Service) take(ctx context.Context, items []item, operation string, key *string, ttl time.Duration, by DeduplicateBy) ([]Result, error) {
	p, err := s.plan(items, operation, key, ttl, by)
	if err != nil {
		return nil, err
	}
	r, err := s.accept(ctx, p)
	if err != nil {
		return nil, err
	}
	brief, cancel := s.o.Markers.Brief(ctx)
	defer cancel()
	switch {
	case s.o.Meter == nil:
	case r.duplicate:
		s.o.Meter.Flush(brief)
	default:
		s.o.Meter.Accepted(brief, p.recipients())
	}
	return r.results(p), nil
}

// Preview is the result of Check.
type Preview struct {
	Faults     []Fault // if there are any, the other fields do not count
	Recipients int     // distinct ones
	Targets    []activity.Target
}

// Check validates a request without accepting it.
func (s *Service) Check(ctx context.Context, req Request) (Preview, error) {
	f := newFaults()
	it, err := s.check(ctx, req, f)
	return Preview{Faults: *f.list, Recipients: it.recipients, Targets: it.targets}, err
}

// CheckBatch returns everything that is wrong with a batch, without accepting it.
func (s *Service) CheckBatch(ctx context.Context, req BatchRequest) ([]Fault, error) {
	f := newFaults()
	_, err := s.checkBatch(ctx, req, f)
	return *f.list, err
}

func (s *Service) checkBatch(ctx context.Context, req BatchRequest, f faults) ([]item, error) {
	if n := len(req.Requests); n < 1 || n > s.o.Limits.Batch {
		f.add("/activities", "lists %d activities; a batch has 1 to %d", n, s.o.Limits.Batch)
		return nil, nil
	}
	items := make([]item, len(req.Requests))
	for i, r := range req.Requests {
		at := f.below(fmt.Sprintf("/activities/%d", i))
		if r.DeduplicationKey != nil {
			at.add("/deduplicationKey", "is not for a part of a batch, which has one key for the whole; for a key each, make single calls")
			r.DeduplicationKey, r.DeduplicationTTL, r.DeduplicateBy = nil, 0, ""
		}
		// A batch is one message, so all its parts share one queue and one due time.
		if first := req.Requests[0]; r.OrderingKey != first.OrderingKey {
			at.add("/orderingKey", "differs from the first activity's; a batch has one orderingKey or none")
		} else if r.Delay != first.Delay {
			at.add("/delay", "differs from the first activity's; a batch has one delay")
		}
		var err error
		if items[i], err = s.check(ctx, r, at); err != nil {
			return nil, err
		}
	}
	checkKey(req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy, f)
	return items, nil
}
