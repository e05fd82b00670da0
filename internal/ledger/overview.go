package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// overview counts and lists the recipients of an activity, chunk by chunk.
type overview struct {
	record   Record
	reader   Reader
	now      time.Time
	filter   RecipientFilter
	limit    int
	from, to int // the targets to list
	next     int // the first of them that was not read

	counts  map[activity.State]int
	counted int // recipients
	touched bool
	page    []RecipientView
	size    int  // of page in JSON, at most
	full    bool // the page may grow no more
	unread  bool // a chunk on the page is not planned yet
}

func (t *overview) add(ctx context.Context, chunks []Chunk) error {
	parked, err := t.look(ctx, chunks)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		t.touched = t.touched || c.Touched
		t.unread = t.unread || c.Targets == nil
		for p, target := range c.Targets {
			r, recorded := c.Recipients[p]
			var at parkedAt
			if !recorded {
				r = Recipient{State: activity.Queued}
				var here bool
				if at, here = parked[targetID{c.Number, p}]; !here {
					at, here = parked[targetID{c.Number, wholeChunk}]
				}
				switch {
				case here:
					r.State, r.NextAttemptAt = activity.Parked, at.due
				case t.record.Inline != nil && t.record.Lost != "":
					r.State, r.LastError = activity.Dead, t.record.Lost // there was one message for all
				}
			}
			r.State = t.state(c, r, recorded)
			t.counts[r.State] += target.Stands
			t.counted += target.Stands
			if i := c.Number*t.record.Chunk + p; i >= t.from && i < t.to && !t.unread && !t.full {
				if t.filter.takes(target, r.State) {
					v, err := viewOf(target, r)
					if err != nil {
						return err
					}
					if v.State == activity.Parked && !recorded {
						v.Lot = at.key
					}
					if v.State == activity.Queued && t.record.DueAt.After(t.now) {
						v.NextAttemptAt = t.record.DueAt
					}
					t.list(v)
				}
				if !t.full {
					t.next = i + 1
				}
			}
		}
	}
	return nil
}

// list puts a recipient on the page, if there is room for its texts.
func (t *overview) list(v RecipientView) {
	// JSON writes a quote in two bytes, and names and numbers take some.
	v.LastError, v.Response, v.Note = outcome.Text(v.LastError), outcome.Text(v.Response), outcome.Text(v.Note)
	t.size += 2*(len(v.Inbox)+len(v.Written)+len(v.LastError)+len(v.Response)+len(v.Note)) + rowSize + len(v.Tries)*trySize
	if !v.State.Final() {
		t.size += 2 * longestReason
	}
	if t.full = len(t.page) == t.limit || t.size > MaxPage && len(t.page) > 0; !t.full {
		t.page = append(t.page, v)
	}
}

// state is the state that r is shown with. If the activity is cancelled or expired, no
// attempt will begin any more, so a recipient without a worker is shown as cancelled
// or expired.
func (t *overview) state(c Chunk, r Recipient, recorded bool) activity.State {
	atIt := r.Claimed.After(t.now) || !recorded && c.Claimed.After(t.now)
	switch {
	case r.State.Final() || atIt:
		return r.State
	case t.record.Cancelled:
		return activity.Cancelled
	case !t.record.ExpiresAt.IsZero() && !t.now.Before(t.record.ExpiresAt):
		return activity.Expired
	}
	return r.State
}

func viewOf(target activity.Target, r Recipient) (v RecipientView, err error) {
	v = RecipientView{
		Inbox: target.Inbox, Written: target.Written, State: r.State, Attempts: r.Attempts,
		LastStatus: r.LastStatus, LastError: r.LastError, Response: r.Response, Note: r.Note,
		UpdatedAt: r.UpdatedAt, By: r.By,
	}
	if target.Stands > 1 {
		v.Recipients = target.Stands
	}
	if !r.State.Final() {
		v.NextAttemptAt = r.NextAttemptAt
	}
	if r.State == activity.Parked {
		v.Lot = lotKey(target.Inbox, r.Lot)
	}
	v.Tries, err = r.Tries.List()
	return v, err
}

// status also counts the recipients of chunks that are not planned yet.
func (t *overview) status() Status {
	if rest := t.record.Recipients - t.counted; rest > 0 {
		state := activity.Queued
		if t.record.Lost != "" {
			state = activity.Dead // nobody plans these chunks any more
		}
		t.counts[t.state(Chunk{}, Recipient{State: state}, false)] += rest
	}
	open := 0
	for s, n := range t.counts {
		if !s.Final() {
			open += n
		}
	}
	switch {
	case t.record.Cancelled && (open > 0 || t.counts[activity.Cancelled] > 0):
		return StatusCancelled
	case open == 0:
		return StatusDone
	case t.touched || t.counts[activity.Queued] != open:
		return StatusDelivering
	}
	return StatusQueued
}

// targetID identifies a target of the activity.
type targetID struct{ chunk, position int }

// parkedAt is the lot of a parked target without a record, and its own due time, if any.
type parkedAt struct {
	key string
	due time.Time
}

// wholeChunk is the position of a targetID that stands for all targets of a chunk without a record.
const wholeChunk = -1

// look finds parked targets without a record: if all servers of a chunk are down, a worker parks
// its deliveries and writes nothing else.
//
// Targets on the page are looked up one by one. In other chunks the first target without a record
// stands for the rest, because looking up 50,000 would cost more than the deliveries. So
// the counts can be wrong while a lot is being emptied.
func (t *overview) look(ctx context.Context, chunks []Chunk) (map[targetID]parkedAt, error) {
	parked := make(map[targetID]parkedAt)
	ids := make(map[parking.ID]sought)
	groups := make(map[string][]targetID) // by host
	for _, c := range chunks {
		if c.Claimed.After(t.now) {
			continue // a worker is attempting these targets
		}
		begin := c.Number * t.record.Chunk
		listed := begin < t.to && begin+len(c.Targets) > t.from
		for p, target := range c.Targets {
			if _, recorded := c.Recipients[p]; recorded {
				continue
			}
			at := targetID{c.Number, p}
			if t.record.OrderingKey != "" {
				if listed {
					groups[target.Host()] = append(groups[target.Host()], at)
				}
				continue
			}
			if !listed {
				at.position = wholeChunk
			}
			ids[parking.ID{
				Key: circuit.HostKey(target.Host()), Unit: message.Unit{Activity: t.record.ID, Chunk: c.Number, Position: p, Generation: parking.FirstGeneration},
			}] = sought{at, target.Inbox}
			if !listed {
				break
			}
		}
	}
	if err := t.lookInLots(ctx, ids, parked); err != nil {
		return nil, err
	}
	return parked, t.lookInGroups(ctx, groups, parked)
}

// sought is a target that may be in the lot of its host or of its inbox.
type sought struct {
	targetID
	inbox string
}

// lookInLots looks into the lots of the hosts first, where nearly all are, and then into those of
// the inboxes.
func (t *overview) lookInLots(ctx context.Context, ids map[parking.ID]sought, parked map[targetID]parkedAt) error {
	for lot := 0; lot < 2 && len(ids) > 0; lot++ {
		taken, err := t.reader.IsParked(ctx, slices.Collect(maps.Keys(ids)))
		if err != nil {
			return err
		}
		left := make(map[parking.ID]sought, len(ids)-len(taken))
		for s, l := range ids {
			if taken[s] {
				parked[l.targetID] = parkedAt{key: s.Key}
				continue
			}
			s.Key = circuit.InboxKey(l.inbox)
			left[s] = l
		}
		ids = left
	}
	return nil
}

// lookInGroups finds parked ordered deliveries. It reads whole groups, because the id of a parked
// delivery has its sequence, which only its message has. All of a group is due when
// its head is.
func (t *overview) lookInGroups(ctx context.Context, groups map[string][]targetID, parked map[targetID]parkedAt) error {
	for _, host := range slices.Sorted(maps.Keys(groups)) {
		targets := groups[host]
		wanted := make(map[targetID]bool, len(targets))
		for _, p := range targets {
			wanted[p] = true
		}
		group := message.GroupOf(activity.Activity{Options: activity.Options{OrderingKey: t.record.OrderingKey}}, host)
		ids, err := t.reader.ParkedInGroup(ctx, circuit.HostKey(host), group)
		if err != nil {
			return err
		}
		var first time.Time
		for _, due := range ids {
			if !due.IsZero() && (first.IsZero() || due.Before(first)) {
				first = due
			}
		}
		for s := range ids {
			if p := (targetID{s.Chunk, s.Position}); s.Activity == t.record.ID && wanted[p] {
				parked[p] = parkedAt{s.Key, first}
			}
		}
	}
	return nil
}
