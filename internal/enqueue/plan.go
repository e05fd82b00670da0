package enqueue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// The operations: a deduplication key counts per operation.
const (
	opSingle = "activities"
	opBatch  = "batch"
)

// plan is what one call is going to do. It has no activity id: deduplication decides that.
type plan struct {
	items     []item
	operation string
	queue     queue.Name
	sender    queue.Sender
	caps      queue.Capabilities

	key         *string
	ttl         time.Duration // 0: the default
	by          DeduplicateBy
	fingerprint string // empty without a key

	ordering string
	delay    time.Duration

	// unrecorded: the table was down, so the call may have no record.
	unrecorded bool
}

// plan chooses the queue and fills in what follows from that choice.
func (s *Service) plan(items []item, operation string, key *string, ttl time.Duration, by DeduplicateBy) (*plan, error) {
	first := items[0]
	p := &plan{
		items: items, operation: operation, queue: queue.Ordered,
		key: key, ttl: ttl, by: by, ordering: first.OrderingKey, delay: first.Delay,
	}
	for i := range items {
		if items[i].Priority == "" {
			items[i].Priority = s.priority(items[i])
		}
	}
	if p.ordering == "" {
		p.queue = mostUrgent(items)
	}
	var ok bool
	if p.sender, ok = s.o.Queues[p.queue]; !ok {
		return nil, &SendError{Err: fmt.Errorf("no queue %q is configured", p.queue)}
	}
	p.caps = p.sender.Capabilities()
	if key != nil {
		p.fingerprint = fingerprint(p)
	}
	return p, nil
}

// priority of an activity whose request names none. The Delete of an account is always low:
// it goes to very many servers, and nobody waits for it.
func (s *Service) priority(it item) activity.Priority {
	if said := it.said; said.Type == "Delete" && said.Actor != "" && said.Object == said.Actor {
		return activity.Low
	}
	if p, ok := s.o.Priorities[cmp.Or(it.said.Type, it.Job)]; ok {
		return p
	}
	return s.o.Priority
}

// mostUrgent returns the queue of the most urgent item, so that no part of a batch waits
// longer than it would alone.
func mostUrgent(items []item) queue.Name {
	for _, p := range activity.Priorities {
		if slices.ContainsFunc(items, func(it item) bool { return it.Priority == p }) {
			return queue.Name(p)
		}
	}
	return queue.Normal
}

func (p *plan) name() dedup.Name {
	return dedup.Name{Queue: p.queue, Operation: p.operation, Key: *p.key}
}

// later reports whether the delay is longer than the queue's maximum.
func (p *plan) later() bool { return p.delay > p.caps.MaxDelay }

// records returns the ledger's records of the call, which depend on base and at only.
func (p *plan) records(base activity.ID, at time.Time, retention time.Duration) []ledger.Record {
	rs := make([]ledger.Record, len(p.items))
	for i, it := range p.items {
		due := at.Add(p.delay)
		r := ledger.Record{
			ID: activity.InBatch(base, i), Protocol: it.Protocol, Type: it.said.Type, CreatedAt: at,
			Recipients: it.recipients, Targets: len(it.targets), Chunk: ledger.ChunkSize,
			Fingerprint: p.fingerprint, Metadata: it.Metadata,
			Forget: due.Add(retention),
		}
		if p.delay > 0 {
			r.DueAt = due
		}
		if it.ExpiresIn > 0 {
			r.ExpiresAt = due.Add(it.ExpiresIn)
		}
		if p.ordering != "" {
			r.Chunk, r.OrderingKey = 1, p.ordering
		}
		if r.Targets <= r.Chunk {
			r.Inline = it.targets
		}
		rs[i] = r
	}
	return rs
}

// recipients counts those of all activities.
func (p *plan) recipients() (n int) {
	for _, it := range p.items {
		n += it.recipients
	}
	return n
}

func (p *plan) message(rs []ledger.Record, trace string) message.Message {
	ms := make([]message.Message, len(p.items))
	for i, it := range p.items {
		a := activity.Activity{
			ID: rs[i].ID, Protocol: it.Protocol, Body: *it.Body, Type: it.said.Type,
			Options: it.Options, Headers: it.headers,
			Trace: trace, CreatedAt: rs[i].CreatedAt, DueAt: rs[i].DueAt, ExpiresAt: rs[i].ExpiresAt,
		}
		if it.forwarded() && len(it.said.Actor) <= longestListed {
			a.Author = activity.Document(it.said.Actor)
		}
		ms[i] = message.Message{Version: message.Version, Activity: &a}
		if p.ordering == "" && len(it.targets) <= ledger.ChunkSize {
			ms[i].Deliver = &message.Delivery{Position: message.Whole, Targets: it.targets}
		} else {
			ms[i].FanOut = &message.FanOut{Targets: it.targets}
		}
	}
	if p.operation == opSingle {
		return ms[0]
	}
	return message.Message{Version: message.Version, Batch: ms}
}

// listed are the call's entries in the lists of activities. Activities without a sender,
// such as Sipher jobs, are in no list: they are found by fedpost's id only.
func (p *plan) listed(rs []ledger.Record) (ls []ledger.Listed) {
	for i, it := range p.items {
		if l := it.listed(rs[i]); l.Sender != "" && max(len(l.Sender), len(l.Actor)) <= longestListed {
			ls = append(ls, l)
		}
	}
	return ls
}

// The longest ids in lists, in bytes. No list is searched by an object's id, so that id must not
// cost a second write unit.
const (
	longestListed = 2048
	longestObject = 300
)

// forwarded reports whether the activity is signed with a key that is not its actor's.
func (it item) forwarded() bool { return it.KeyID != "" && !keyOf(it.KeyID, it.said.Actor) }

func (it item) listed(r ledger.Record) ledger.Listed {
	l := ledger.Listed{
		ID: r.ID, ActivityID: it.said.ID, Sender: activity.Document(it.said.Actor), Actor: it.said.Actor, Type: it.said.Type, KeyID: it.KeyID,
		Object: it.said.Object, Bytes: len(*it.Body), CreatedAt: r.CreatedAt, Forget: r.Forget,
	}
	if it.forwarded() {
		l.Sender = activity.Document(it.KeyID)
	}
	if len(l.ActivityID) > longestListed {
		l.ActivityID = ""
	}
	if len(l.Object) > longestObject {
		l.Object = ""
	}
	return l
}
