package cache

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
)

// Observe counts the outcome of an attempt, and shares at once that a circuit
// has opened: every second that others do not know costs them attempts.
func (h *Hosts) Observe(ctx context.Context, t activity.Target, out outcome.Outcome) error {
	now, key := h.now(), circuit.HostKey(t.Host())
	h.mu.Lock()
	before := h.view(key, now)
	k := h.entry(key, now)
	k.seen = k.seen.Add(t.Inbox, out)
	after := h.view(key, now)
	h.mu.Unlock()
	if before.Decision(now) != after.Decision(now) || before.InboxesUntil != after.InboxesUntil {
		return h.save(ctx, key)
	}
	return nil
}

// savesAtOnce is how many states are saved at a time.
const savesAtOnce = 16

// Flush saves what has been learnt.
func (h *Hosts) Flush(ctx context.Context) error {
	h.mu.Lock()
	var keys []string
	for key, k := range h.known {
		if k.seen != (circuit.Observation{}) {
			keys = append(keys, key)
		}
	}
	h.mu.Unlock()
	errs := make([]error, len(keys))
	var g errgroup.Group
	g.SetLimit(savesAtOnce)
	for i, key := range keys {
		g.Go(func() error {
			errs[i] = h.save(ctx, key)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// save adds what was seen of a server to its shared state. One goroutine at a
// time does so for a server, for all.
func (h *Hosts) save(ctx context.Context, key string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.known[key]
	if k == nil || k.busy {
		return nil
	}
	k.busy = true
	defer func() { k.busy = false }()
	for k.seen != (circuit.Observation{}) {
		k.saving, k.seen = k.seen, circuit.Observation{}
		base, seen := k.stored, k.saving
		h.mu.Unlock()
		saved, err := h.share(ctx, base, seen)
		h.mu.Lock()
		k.saving = circuit.Observation{}
		if err != nil {
			k.seen = seen.Then(k.seen)
			return err
		}
		k.stored = saved
	}
	return nil
}

// share adds what was seen to a server's state, and opens the circuit of an
// inbox that turns out to be to blame.
func (h *Hosts) share(ctx context.Context, base circuit.State, seen circuit.Observation) (circuit.State, error) {
	now, culprit := h.now(), ""
	_, saved, err := circuit.ChangeFrom(ctx, h.store, base, func(s circuit.State) circuit.State {
		culprit = s.Culprit(h.rules, seen, now)
		return s.Observe(h.rules, seen, now)
	})
	if err != nil || culprit == "" {
		return saved, err
	}
	_, inbox, err := circuit.Change(ctx, h.store, circuit.InboxKey(culprit), func(s circuit.State) circuit.State {
		return s.Fault(h.rules, seen.Reason, seen.Why, now)
	})
	if err == nil {
		h.Set(inbox)
	}
	return saved, err
}

// Change applies f to a server's shared state.
func (h *Hosts) Change(ctx context.Context, key string, f func(circuit.State) circuit.State) error {
	_, saved, err := circuit.Change(ctx, h.store, key, f)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(key, saved, h.now())
	return nil
}
