package deliver

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
)

// item is one activity of an expansion: a fan-out, or a delivery that is small
// enough already.
type item struct {
	activity activity.Activity
	single   *message.Delivery
	targets  []activity.Target
	chunk    int // size
	cursor   int // first chunk to do
	record   ledger.Record
	ref      *message.Ref // where it is stored by itself
	// unrecorded, if set: it may have no record.
	unrecorded *message.Unrecorded
}

func (i item) chunks() int {
	if i.single != nil {
		return 1
	}
	return (len(i.targets) + i.chunk - 1) / i.chunk
}

func (i item) left() int { return i.chunks() - i.cursor }

func (i item) delivery(chunk int) message.Delivery {
	if i.single != nil {
		return *i.single
	}
	from := chunk * i.chunk
	d := message.Delivery{Chunk: chunk, Position: message.Whole, Targets: i.targets[from:min(from+i.chunk, len(i.targets))]}
	if i.activity.Ordered() {
		// On the ordered queue each host has a group of its own, so each target is a
		// unit of its own.
		d.Position = 0
	}
	return d
}

// maxDepth of claim checks within claim checks: a batch may refer to a stored
// fan-out, and be stored itself.
const maxDepth = 3

// flatten lists the activities of a message, loading what is stored.
func (x *expansion) flatten(ctx context.Context, msg message.Message, depth int) error {
	switch {
	case msg.Deliver != nil:
		x.items = append(x.items, item{activity: *msg.Activity, single: msg.Deliver, unrecorded: msg.Unrecorded})
	case msg.FanOut != nil:
		size := ledger.ChunkSize
		if msg.Activity.Ordered() {
			size = 1
		}
		x.items = append(x.items, item{activity: *msg.Activity, targets: msg.FanOut.Targets, chunk: size, cursor: msg.FanOut.Cursor, unrecorded: msg.Unrecorded})
	case msg.Ref != nil:
		inner, err := x.behind(ctx, *msg.Ref, depth)
		if err != nil {
			return err
		}
		first := len(x.items)
		if err := x.flatten(ctx, inner, depth+1); err != nil {
			return err
		}
		if len(x.items) == first+1 {
			x.items[first].ref = msg.Ref
		}
		skip(x.items[first:], msg.Ref.Cursor)
	}
	for _, inner := range msg.Batch {
		if err := x.flatten(ctx, inner, depth); err != nil {
			return err
		}
	}
	return nil
}

// behind is the message that a claim check stands for, which is itself behind depth others.
func (v *invocation) behind(ctx context.Context, ref message.Ref, depth int) (message.Message, error) {
	if depth == maxDepth {
		return message.Message{}, fmt.Errorf("%w: claim checks %d deep", claimcheck.ErrDamaged, depth)
	}
	body, err := claimcheck.Get(ctx, v.Payloads, ref.ID, ref.Parts)
	if err != nil {
		return message.Message{}, err
	}
	m, err := message.Decode(body)
	if errors.Is(err, message.ErrNewer) {
		return message.Message{}, err
	}
	if err != nil {
		return message.Message{}, fmt.Errorf("%w: %w", claimcheck.ErrDamaged, err)
	}
	return m, nil
}

// skip moves the cursors behind the first n deliveries, which were sent by an earlier
// run.
func skip(items []item, n int) {
	for i := range items {
		step := min(n, items[i].left())
		items[i].cursor += step
		n -= step
	}
}

// item sends the deliveries of one activity, as many as there is time for.
func (x *expansion) item(ctx context.Context, i *item) (finished bool, err error) {
	if i.left() == 0 {
		return true, nil
	}
	if err := x.recordOf(ctx, i); err != nil {
		return false, err
	}
	if err := x.watch(ctx, i.activity); err != nil { // under the id that recordOf may have changed
		return false, err
	}
	if i.record.Cancelled || i.activity.Expired(x.Now()) {
		i.cursor = i.chunks()
		return true, nil
	}
	if err := x.resume(ctx, i); err != nil {
		return false, err
	}
	for i.left() > 0 {
		if x.late() || x.turnOver(i) {
			return false, nil
		}
		if err := x.step(ctx, i); err != nil {
			return false, err
		}
	}
	return true, nil
}

// recordOf looks up the activity's record, and makes up for one that is missing.
func (x *expansion) recordOf(ctx context.Context, i *item) (err error) {
	if i.unrecorded != nil {
		targets := i.targets
		if i.single != nil {
			targets = i.single.Targets
		}
		if err := x.makeUp(ctx, &i.activity, targets, *i.unrecorded); err != nil {
			return err
		}
		if i.single == nil {
			i.unrecorded = nil // the record is written now
		}
	}
	if i.record, err = x.Ledger.Activity(ctx, i.activity.ID); err != nil {
		if !errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("look up activity: %w", err)
		}
		i.record = ledger.Record{ID: i.activity.ID, Forget: i.activity.CreatedAt.Add(defaultForget)}
	}
	return nil
}

// message is what is left of i as a message of its own.
func (i item) message() message.Message {
	a := i.activity
	if i.ref != nil {
		return message.Message{Ref: &message.Ref{ID: i.ref.ID, Parts: i.ref.Parts, Cursor: i.cursor}}
	}
	if i.single != nil {
		return message.Message{Activity: &a, Deliver: i.single, Unrecorded: i.unrecorded}
	}
	return message.Message{
		Activity: &a, FanOut: &message.FanOut{Targets: i.targets, Cursor: i.cursor}, Unrecorded: i.unrecorded,
	}
}
