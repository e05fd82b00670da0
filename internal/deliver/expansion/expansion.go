// Package expansion turns a message for whole activities (a fan-out, a batch, a claim check)
// into deliveries of up to ledger.ChunkSize recipients, a message each.
//
// Expanding twice is harmless, because chunks are claimed before anything is sent.
package expansion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/message/tracing"
)

// expandStep is how many deliveries are planned and sent between two looks at the clock.
const expandStep = 25

// expandTurn is how many deliveries of fan-outs a message is expanded into before its rest goes
// to the end of the queue, so that a small activity does not wait for all deliveries of a large
// one.
const expandTurn = 50

// Expander expands messages. Only Trace may be nil.
type Expander struct {
	Intake *intake.Intake
	Bodies *bodies.Bodies
	Trace  *tracing.Tracer
	// Late reports whether too little time is left.
	Late func() bool
	// GiveUp gives up a delivery that no queue takes.
	GiveUp func(ctx context.Context, w intake.Work, reason, why string) (intake.Disposition, error)
}

type expansion struct {
	Expander
	in    *intake.Intake
	w     intake.Work
	items []item
	sent  int // deliveries of fan-outs
}

// Expand expands a message. One that can never be read goes to the dead-letter queue.
func (e Expander) Expand(ctx context.Context, w intake.Work) (intake.Disposition, error) {
	d, err := e.expand(ctx, w)
	switch {
	case errors.Is(err, message.ErrNewer):
		return e.Intake.Reject(ctx, w.From, w.Received, "newer", err) // a redrive brings it back
	case errors.Is(err, claimcheck.ErrNotFound), errors.Is(err, claimcheck.ErrDamaged):
		return e.Intake.Abandon(ctx, w, "payload", err)
	}
	return d, err
}

func (e Expander) expand(ctx context.Context, w intake.Work) (d intake.Disposition, err error) {
	x, began := &expansion{Expander: e, in: e.Intake, w: w}, w.Traced()
	if x.items, err = flatten(ctx, x.in, w.Message, 0); err != nil {
		return intake.Disposition{}, err
	}
	ctx, span := e.Trace.Process(ctx, began, x.activities()...)
	defer func() { span.End(err) }()
	for n := range x.items {
		finished, err := x.item(ctx, &x.items[n])
		if err != nil {
			return intake.Disposition{}, err
		}
		if !finished {
			return x.goOnLater(ctx)
		}
	}
	return intake.Done, nil
}

func (x *expansion) activities() []activity.Activity {
	all := make([]activity.Activity, len(x.items))
	for k, i := range x.items {
		all[k] = i.activity
	}
	return all
}

func (x *expansion) item(ctx context.Context, i *item) (finished bool, err error) {
	if i.left() == 0 {
		return true, nil
	}
	if err := x.recordOf(ctx, i); err != nil {
		return false, err
	}
	if err := x.in.Watch(ctx, i.activity); err != nil { // under the id that recordOf may have changed
		return false, err
	}
	if i.record.Cancelled || i.activity.Expired(x.in.Now()) {
		i.cursor = i.chunks()
		return true, nil
	}
	if err := x.resume(ctx, i); err != nil {
		return false, err
	}
	for i.left() > 0 {
		if x.Late() || x.turnOver(i) {
			return false, nil
		}
		if err := x.step(ctx, i); err != nil {
			return false, err
		}
	}
	return true, nil
}

// recordOf reads the activity's record, and writes one that is missing.
func (x *expansion) recordOf(ctx context.Context, i *item) (err error) {
	if i.unrecorded != nil {
		targets := i.targets
		if i.single != nil {
			targets = i.single.Targets
		}
		if err := x.in.MakeUp(ctx, &i.activity, targets, *i.unrecorded); err != nil {
			return err
		}
		if i.single == nil {
			i.unrecorded = nil
		}
	}
	if i.record, err = x.in.Ledger.Activity(ctx, i.activity.ID); err != nil {
		if !errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("look up activity: %w", err)
		}
		i.record = ledger.Record{ID: i.activity.ID, Forget: i.activity.CreatedAt.Add(ledger.DefaultKeep)}
	}
	return nil
}

// resume finds where an earlier run on the ordered queue stopped. There the rest of a fan-out
// cannot be a second message, because later activities would overtake it. So the message has no
// cursor, and resume looks for the first chunk that is not planned.
func (x *expansion) resume(ctx context.Context, i *item) error {
	if !x.w.From.Ordered() || x.w.Received.ReceiveCount < 2 || i.left() <= expandStep {
		return nil
	}
	low, high := i.cursor, i.chunks() // the first chunk that is not planned is in [low, high]
	for low < high {
		mid := (low + high) / 2
		cs, err := x.in.Ledger.Chunks(ctx, i.record, mid, mid)
		if err != nil {
			return fmt.Errorf("look for the end of an expansion: %w", err)
		}
		if len(cs) == 1 && len(cs[0].Targets) > 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	// The last planned step may not have been sent.
	i.cursor = max(i.cursor, low-expandStep)
	return nil
}

func (x *expansion) step(ctx context.Context, i *item) error {
	first, n := i.cursor, min(expandStep, i.left())
	if i.single == nil {
		x.sent += n
	}
	ds := make([]message.Delivery, n)
	lists := make([][]activity.Target, n)
	for k := range ds {
		ds[k] = i.delivery(first + k)
		lists[k] = ds[k].Targets
	}
	a, err := x.Bodies.Apart(ctx, i.activity, i.chunks(), 0, i.record.Forget)
	if err != nil {
		return err
	}
	if x.w.From.Ordered() && a.Sequence == "" {
		a.Sequence = x.sequence(i)
	}
	if i.single == nil && i.chunks() > 1 {
		if err := x.in.Ledger.PlanChunks(ctx, a.ID, first, lists, i.record.Forget); err != nil {
			return fmt.Errorf("plan chunks: %w", err)
		}
	}
	if err := x.sendSound(ctx, a, ds); err != nil {
		return fmt.Errorf("send deliveries: %w", err)
	}
	i.cursor += n
	return nil
}

// sendSound sends deliveries. It gives up those that the queue refuses for good, so that they
// do not hold up others or their group.
func (x *expansion) sendSound(ctx context.Context, a activity.Activity, ds []message.Delivery) error {
	for {
		errs, err := x.in.Send(ctx, x.w.From, x.w.Received, a, ds, nil)
		if err != nil {
			return err
		}
		var rest []message.Delivery // not sent, and not refused
		some := false
		for k, err := range errs {
			switch {
			case queue.Refused(err):
				some = true
				why := "the queue refuses the delivery: " + err.Error()
				one := intake.Work{From: x.w.From, Received: x.w.Received, Message: message.Message{Activity: &a, Deliver: &ds[k]}}
				if d, err := x.GiveUp(ctx, one, "refused", why); err != nil {
					return err
				} else if !d.Done {
					return fmt.Errorf("give up a delivery that the queue refuses: %w", ledger.ErrClaimed)
				}
			case err != nil:
				rest = append(rest, ds[k])
			}
		}
		if !some {
			return errors.Join(errs...)
		}
		if ds = rest; len(ds) == 0 {
			return nil
		}
	}
}

// sequence is the place of an activity in its ordering key: the sequence number of its message,
// then its place in a batch. All have the same length, so they compare as strings.
func (x *expansion) sequence(i *item) string {
	place := 0
	for k := range x.items {
		if &x.items[k] == i {
			place = k
		}
	}
	return fmt.Sprintf("%s%04d", x.w.Received.Sequence, place)
}

// turnOver reports whether the rest goes to the end of the queue; on the ordered queue never.
func (x *expansion) turnOver(i *item) bool {
	return i.single == nil && x.sent >= expandTurn && !x.w.From.Ordered()
}

// storeAbove is the size in bytes above which the rest of a message goes by claim check: SQS
// bills each 64 KiB as a request.
const storeAbove = 64 << 10

// storable reports whether the rest of msg is worth storing, and one cursor says how far it was
// expanded.
func (x *expansion) storable(msg message.Message) bool {
	for _, part := range msg.Batch {
		if part.Ref != nil {
			return false // this part has a cursor of its own
		}
	}
	return len(x.w.Received.Body) > storeAbove
}

// store stores msg, and returns a claim check with a cursor for its rest.
func (x *expansion) store(ctx context.Context, msg message.Message) (message.Message, error) {
	whole := msg
	if msg.FanOut != nil {
		whole.FanOut = &message.FanOut{Targets: msg.FanOut.Targets}
	}
	whole.Batch = slices.Clone(msg.Batch)
	for k, part := range whole.Batch {
		if part.FanOut != nil {
			whole.Batch[k].FanOut = &message.FanOut{Targets: part.FanOut.Targets}
		}
	}
	body, err := message.Encode(whole)
	if err != nil {
		return message.Message{}, err
	}
	ref := message.Ref{ID: string(x.items[0].activity.ID) + "/rest"}
	if ref.Parts, err = claimcheck.Put(ctx, x.in.Payloads, ref.ID, body, x.in.Now().Add(agenda.Slack)); err != nil {
		return message.Message{}, fmt.Errorf("store the rest of an expansion: %w", err)
	}
	ref.Cursor = x.cursor()
	return message.Message{Ref: &ref}, nil
}

// cursor is how many deliveries of all items were sent.
func (x *expansion) cursor() (n int) {
	for _, i := range x.items {
		n += i.cursor
	}
	return n
}

func (x *expansion) goOnLater(ctx context.Context) (intake.Disposition, error) {
	msg := x.w.Message
	if x.w.From.Ordered() {
		return intake.Again(0), nil
	}
	rest := message.Message{}
	switch {
	case msg.Ref != nil:
		ref := *msg.Ref
		ref.Cursor = x.cursor()
		rest.Ref = &ref
	case x.storable(msg):
		var err error
		if rest, err = x.store(ctx, msg); err != nil {
			return intake.Disposition{}, err
		}
	default:
		for _, i := range x.items {
			if i.left() > 0 {
				rest.Batch = append(rest.Batch, i.message())
			}
		}
		if len(rest.Batch) == 1 {
			rest = rest.Batch[0]
		}
	}
	body, err := message.Encode(rest)
	if err != nil {
		return intake.Disposition{}, err
	}
	if err := x.in.SendAlone(ctx, x.w.From, x.w.Received, "rest", queue.Message{Body: body}); err != nil {
		return intake.Disposition{}, fmt.Errorf("hand on the rest of an expansion: %w", err)
	}
	return intake.Done, nil
}
