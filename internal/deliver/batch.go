package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
)

// ErrUnnamed says that a message without an id failed. A response cannot name such a
// message, so the whole batch has to come back, which is harmless.
var ErrUnnamed = errors.New("a message without an id failed: the whole batch has to come back")

// Handle works on a batch received from a queue and returns the ids of the
// messages that are not done: those come back by the queue's visibility
// timeout. The list is never nil. A fault of a remote server is never an error.
func (e *Engine) Handle(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
	batch = distinct(batch)
	v := e.invocation(ctx, from, batch)
	groups := split(from, batch)
	kept := make([][]int, len(groups))

	var wg sync.WaitGroup
	slots := make(chan struct{}, e.Limits.Messages)
	work := func(i int) {
		slots <- struct{}{}
		defer func() { <-slots }()
		kept[i] = v.group(ctx, batch, groups[i])
	}
	// The first needs no goroutine: most batches of small activities have one message.
	for i := 1; i < len(groups); i++ {
		wg.Go(func() { work(i) })
	}
	if len(groups) > 0 {
		work(0)
	}
	wg.Wait()
	v.journal.close(ctx)
	untold := v.feed.close(ctx)
	ctx, cancel := v.closing(ctx)
	defer cancel()
	if err := e.Hosts.Flush(ctx); err != nil {
		// Deliveries are recorded all the same. Only the circuits have fewer outcomes.
		e.Log.WarnContext(ctx, "what was learnt of hosts could not be saved", "error", err)
	}
	e.Meter.Flush(ctx)
	failed := []string{}
	var err error
	for _, g := range kept {
		for _, i := range g {
			if batch[i].ID == "" {
				err = ErrUnnamed
				continue
			}
			failed = append(failed, batch[i].ID)
		}
	}
	for _, m := range untold {
		switch {
		case m.ID == "":
			err = ErrUnnamed
		case !slices.Contains(failed, m.ID):
			failed = append(failed, m.ID)
		}
	}
	return failed, err
}

// distinct drops repeated receipts of a message: it is worked on once, at its
// first place, by its last receipt, whose handle is the valid one.
func distinct(batch []queue.Received) []queue.Received {
	place := make(map[string]int, len(batch))
	var all []queue.Received
	for _, m := range batch {
		if at, ok := place[m.ID]; ok && m.ID != "" {
			all[at] = m
			continue
		}
		place[m.ID] = len(all)
		all = append(all, m)
	}
	return all
}

// split returns the indices of a batch's messages in runs that have to be
// worked on one after another: the groups of a FIFO queue, single messages
// otherwise.
func split(from queue.Name, batch []queue.Received) [][]int {
	var groups [][]int
	byKey := map[string]int{}
	for i, m := range batch {
		if !from.Ordered() {
			groups = append(groups, []int{i})
			continue
		}
		at, ok := byKey[m.OrderingKey]
		if !ok {
			at = len(groups)
			byKey[m.OrderingKey] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	return groups
}

// group works on messages one after another until one is not done, and returns
// that and those behind it.
func (v *invocation) group(ctx context.Context, batch []queue.Received, g []int) []int {
	for n, i := range g {
		d := v.contained(ctx, batch[i])
		if d.Done {
			continue
		}
		// The messages behind it in the group come back with it. They are told so
		// from the last to the first, and none becomes visible at once: so the
		// message that failed is received first again. SQS holds a group in any
		// case, while some servers that speak its API do not.
		if v.from.Ordered() && d.After >= 0 {
			// A second is the shortest visibility timeout of SQS above 0. In that time all of
			// them get their new timeout before the first is visible.
			d.After = max(d.After, time.Second)
		}
		for _, j := range slices.Backward(g[n:]) {
			v.handBack(ctx, v.from, batch[j], d)
		}
		return g[n:]
	}
	return nil
}

// contained works on a message and turns panics into failures of it alone.
func (v *invocation) contained(ctx context.Context, m queue.Received) (d intake.Disposition) {
	defer func() {
		if r := recover(); r != nil {
			v.Log.ErrorContext(ctx, "panic while a message was worked on", "queue", v.from, "messageId", m.ID,
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			d = v.intake.Trouble(v.from, m)
		}
	}()
	if v.late() {
		return intake.Again(0)
	}
	d, err := v.message(ctx, m)
	if err != nil {
		v.Log.ErrorContext(ctx, "a message could not be worked on and comes back", "queue", v.from, "messageId", m.ID,
			"receives", m.ReceiveCount, "error", err)
		return v.intake.Trouble(v.from, m)
	}
	return d
}
