package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
)

// expandStep is how many deliveries are planned and sent before the clock is
// looked at again.
const expandStep = 25

// expandTurn is into how many deliveries a message's fan-outs are expanded before the
// rest goes to the end of its queue. So large fan-outs take turns with each other and
// with new messages: a small activity waits for one turn of each large one before it (50
// deliveries of 50 recipients), not for all of their deliveries.
const expandTurn = 50

// defaultForget is how long items of an activity are kept if the activity has no record,
// which would say how long.
const defaultForget = 14 * 24 * time.Hour

// expansion is the state of one call of expand.
type expansion struct {
	*invocation
	m     queue.Received
	items []item
	sent  int // deliveries of fan-outs
}

// expand turns a fan-out, a batch or a claim check into deliveries. Expanding
// twice is harmless: chunks are claimed before anything is sent.
func (v *invocation) expand(ctx context.Context, m queue.Received, msg message.Message) (f disposition, err error) {
	x, began := &expansion{invocation: v, m: m}, v.traced(m, false)
	if err := x.flatten(ctx, msg, 0); err != nil {
		return disposition{}, err
	}
	ctx, span := v.Trace.Process(ctx, began, x.activities()...)
	defer func() { span.End(err) }()
	for n := range x.items {
		finished, err := x.item(ctx, &x.items[n])
		if err != nil {
			return disposition{}, err
		}
		if !finished {
			return x.goOnLater(ctx, msg)
		}
	}
	return done, nil
}

func (x *expansion) activities() []activity.Activity {
	all := make([]activity.Activity, len(x.items))
	for k, i := range x.items {
		all[k] = i.activity
	}
	return all
}

// resume finds where an earlier run on the ordered queue stopped. On that queue a second
// message cannot carry on a fan-out, because later activities would overtake it. So the
// message has no cursor, and resume looks which chunks are planned.
func (x *expansion) resume(ctx context.Context, i *item) error {
	if !x.from.Ordered() || x.m.ReceiveCount < 2 || i.left() <= expandStep {
		return nil
	}
	low, high := i.cursor, i.chunks() // the first chunk that is not planned is in [low, high]
	for low < high {
		mid := (low + high) / 2
		cs, err := x.Ledger.Chunks(ctx, i.record, mid, mid)
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

// step plans and sends the next deliveries.
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
	a, err := x.apart(ctx, i.activity, i.chunks(), x.Limits.Copies, i.record.Forget)
	if err != nil {
		return err
	}
	if x.from.Ordered() && a.Sequence == "" {
		a.Sequence = x.sequence(i)
	}
	if i.single == nil && i.chunks() > 1 {
		if err := x.Ledger.PlanChunks(ctx, a.ID, first, lists, i.record.Forget); err != nil {
			return fmt.Errorf("plan chunks: %w", err)
		}
	}
	if err := x.sendSound(ctx, a, ds); err != nil {
		return fmt.Errorf("send deliveries: %w", err)
	}
	i.cursor += n
	return nil
}

// sendSound sends deliveries. It gives up those that the queue refuses for good, so that
// they hold up neither other deliveries nor their ordered group.
func (x *expansion) sendSound(ctx context.Context, a activity.Activity, ds []message.Delivery) error {
	for {
		errs, err := x.sendEach(ctx, x.m, a, ds, nil)
		if err != nil {
			return err
		}
		var rest []message.Delivery // not sent, and not refused
		refused := 0
		for k, err := range errs {
			switch {
			case queue.Refused(err):
				refused++
				why := "the queue refuses the delivery: " + err.Error()
				if f, err := x.giveUp(ctx, x.m, a, ds[k], "refused", why); err != nil {
					return err
				} else if !f.done {
					return fmt.Errorf("give up a delivery that the queue refuses: %w", ledger.ErrClaimed)
				}
			case err != nil:
				rest = append(rest, ds[k])
			}
		}
		if refused == 0 {
			return errors.Join(errs...)
		}
		if ds = rest; len(ds) == 0 {
			return nil
		}
	}
}

// sequence is an activity's place in the order of its ordering key: the sequence number of
// its message, then its place in a batch. All have the same length, so they compare as
// strings.
func (x *expansion) sequence(i *item) string {
	place := 0
	for k := range x.items {
		if &x.items[k] == i {
			place = k
		}
	}
	return fmt.Sprintf("%s%04d", x.m.Sequence, place)
}

// send puts deliveries of an activity, to which the message m has led, on this
// invocation's queue. waits are their delays, nil for none.
func (v *invocation) send(ctx context.Context, m queue.Received, a activity.Activity, ds []message.Delivery, waits []time.Duration) error {
	errs, err := v.sendEach(ctx, m, a, ds, waits)
	return errors.Join(append(errs, err)...)
}

// sendEach is send with one error per delivery, and one for all.
func (v *invocation) sendEach(ctx context.Context, m queue.Received, a activity.Activity, ds []message.Delivery, waits []time.Duration) ([]error, error) {
	to := v.Queues(v.from)
	s := message.Sending{Queue: v.from, Can: to.Capabilities(), Now: v.Now()}
	if !v.from.Ordered() {
		s.Copy = receipt(m)
	}
	ms := make([]queue.Message, len(ds))
	for k, d := range ds {
		if waits != nil {
			s.Wait = waits[k]
		}
		m, err := d.Queued(a, s)
		if err != nil {
			return nil, err
		}
		ms[k] = m.Message
	}
	return to.SendBatch(ctx, ms), nil
}

// turnOver reports whether the rest of the expansion goes to the end of the queue. On the
// ordered queue it never does, because no later message may overtake it.
func (x *expansion) turnOver(i *item) bool {
	return i.single == nil && x.sent >= expandTurn && !x.from.Ordered()
}

// storeAbove is the size in bytes above which the rest of a message goes by claim check:
// SQS bills each 64 KiB as a request, at every turn.
const storeAbove = 64 << 10

// storable reports whether the rest of msg is worth storing, and whether a cursor
// for all of msg tells how far the expansion has come.
func (x *expansion) storable(msg message.Message) bool {
	for _, part := range msg.Batch {
		if part.Ref != nil {
			return false // this part has a cursor of its own
		}
	}
	return len(x.m.Body) > storeAbove
}

// store stores the whole msg, and returns a claim check with a cursor for the rest of
// it.
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
	if ref.Parts, err = claimcheck.Put(ctx, x.Payloads, ref.ID, body, x.Now().Add(agenda.Slack)); err != nil {
		return message.Message{}, fmt.Errorf("store the rest of an expansion: %w", err)
	}
	for _, i := range x.items {
		ref.Cursor += i.cursor
	}
	return message.Message{Ref: &ref}, nil
}

// goOnLater hands the rest of an expansion to a later invocation.
func (x *expansion) goOnLater(ctx context.Context, msg message.Message) (disposition, error) {
	if x.from.Ordered() {
		return again(0), nil
	}
	rest := message.Message{}
	switch {
	case msg.Ref != nil:
		ref := *msg.Ref
		ref.Cursor = 0
		for _, i := range x.items {
			ref.Cursor += i.cursor
		}
		rest.Ref = &ref
	case x.storable(msg):
		var err error
		if rest, err = x.store(ctx, msg); err != nil {
			return disposition{}, err
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
		return disposition{}, err
	}
	if err := x.sendAlone(ctx, x.m, "rest", queue.Message{Body: body}); err != nil {
		return disposition{}, fmt.Errorf("hand on the rest of an expansion: %w", err)
	}
	return done, nil
}
