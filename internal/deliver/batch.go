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

// ErrUnnamed says that a message without an id failed. A response cannot name it, so the whole
// batch comes back, which is harmless.
var ErrUnnamed = errors.New("a message without an id failed: the whole batch has to come back")

// Handle works on a batch received from a queue. It returns the ids of the messages that are
// not done, which come back when their visibility timeout ends; never nil. A fault of a remote
// server is no error.
func (e *Engine) Handle(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
	batch = distinct(batch)
	v := e.invocation(ctx, from, batch)
	groups := split(from, batch)
	kept := make([][]queue.Received, len(groups))

	var wg sync.WaitGroup
	slots := make(chan struct{}, e.Limits.Messages)
	work := func(i int) {
		slots <- struct{}{}
		defer func() { <-slots }()
		kept[i] = v.group(ctx, groups[i])
	}
	// The first needs no goroutine: most batches have one message.
	for i := 1; i < len(groups); i++ {
		wg.Go(func() { work(i) })
	}
	if len(groups) > 0 {
		work(0)
	}
	wg.Wait()
	v.journal.close(ctx)
	returned := v.feed.close(ctx)
	ctx, cancel := v.closing(ctx)
	defer cancel()
	e.saveHosts(ctx)
	e.Meter.Flush(ctx)
	failed := []string{}
	var err error
	for _, m := range append(slices.Concat(kept...), returned...) {
		switch {
		case m.ID == "":
			err = ErrUnnamed
		case !slices.Contains(failed, m.ID):
			failed = append(failed, m.ID)
		}
	}
	return failed, err
}

// saveHosts saves what was learnt about hosts: now, if the process may be frozen after the
// invocation. What is parked does not wait for that: its hosts are settled (settleHosts).
func (e *Engine) saveHosts(ctx context.Context) {
	if e.Limits.Quiet > 0 {
		e.Hosts.FlushSoon()
		return
	}
	if err := e.Hosts.Flush(ctx); err != nil {
		// Only the circuits miss these outcomes; the deliveries are recorded.
		e.Log.WarnContext(ctx, "the states of hosts could not be saved", "error", err)
	}
}

// distinct drops repeated receipts of a message. The last receipt has the valid handle.
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

// split returns the messages in runs that are worked on one after another: the groups of a FIFO
// queue, or single messages.
func split(from queue.Name, batch []queue.Received) [][]queue.Received {
	var groups [][]queue.Received
	byKey := map[string]int{}
	for _, m := range batch {
		if !from.Ordered() {
			groups = append(groups, []queue.Received{m})
			continue
		}
		at, ok := byKey[m.OrderingKey]
		if !ok {
			at = len(groups)
			byKey[m.OrderingKey] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], m)
	}
	return groups
}

// group works on messages one after another until one is not done. It returns that one and those
// after it.
func (v *invocation) group(ctx context.Context, g []queue.Received) []queue.Received {
	for n, m := range g {
		d := v.contained(ctx, m)
		if d.Done {
			continue
		}
		// The messages after it come back with it. Their timeouts are set from the last to the
		// first, so that the failed one is received first. SQS guarantees that order anyway; some
		// servers that speak its API do not.
		if v.from.Ordered() && d.After >= 0 {
			// A second is the shortest visibility timeout of SQS above 0, and long enough to
			// set all of them.
			d.After = max(d.After, time.Second)
		}
		for _, behind := range slices.Backward(g[n:]) {
			v.handBack(ctx, v.from, behind, d)
		}
		return g[n:]
	}
	return nil
}

// contained works on a message. A panic fails this message only.
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

func (e *Engine) invocation(ctx context.Context, from queue.Name, batch []queue.Received) *invocation {
	v := &invocation{Engine: e, from: from, admission: e.schedulers.Of(from)}
	v.journal, v.feed = e.newJournal(ctx, from, batch), &feed{Engine: e, from: from}
	if end, ok := ctx.Deadline(); ok {
		// Deadlines are wall-clock times; Now may be another clock.
		v.end = e.Now().Add(time.Until(end))
	}
	return v
}
