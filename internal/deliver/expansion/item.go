package expansion

import (
	"context"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// item is an activity of an expansion: a fan-out, or a delivery that is small enough.
type item struct {
	activity activity.Activity
	single   *message.Delivery
	targets  []activity.Target
	chunk    int // size
	cursor   int // first chunk to do
	record   ledger.Record
	ref      *message.Ref // where it is stored by itself
	// unrecorded, if set, says that the record may be missing.
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
		// On the ordered queue each host is a group, so each target is a unit.
		d.Position = 0
	}
	return d
}

// flatten lists the activities of a message, which was read through depth claim checks.
func flatten(ctx context.Context, in *intake.Intake, msg message.Message, depth int) (items []item, err error) {
	switch {
	case msg.Deliver != nil:
		items = append(items, item{activity: *msg.Activity, single: msg.Deliver, unrecorded: msg.Unrecorded})
	case msg.FanOut != nil:
		size := ledger.ChunkSize
		if msg.Activity.Ordered() {
			size = 1
		}
		items = append(items, item{activity: *msg.Activity, targets: msg.FanOut.Targets, chunk: size, cursor: msg.FanOut.Cursor, unrecorded: msg.Unrecorded})
	case msg.Ref != nil:
		inner, err := in.Behind(ctx, *msg.Ref, depth)
		if err != nil {
			return nil, err
		}
		if items, err = flatten(ctx, in, inner, depth+1); err != nil {
			return nil, err
		}
		if len(items) == 1 {
			items[0].ref = msg.Ref
		}
		skip(items, msg.Ref.Cursor)
	}
	for _, part := range msg.Batch {
		more, err := flatten(ctx, in, part, depth)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return items, nil
}

// skip moves the cursors past the first n deliveries, which an earlier run has sent.
func skip(items []item, n int) {
	for i := range items {
		step := min(n, items[i].left())
		items[i].cursor += step
		n -= step
	}
}

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
