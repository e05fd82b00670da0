package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
)

// What a delivery teaches about its host is kept apart from the record of the
// delivery: Observe and Learn only change what this process knows, at once, and
// the shared state is written in the background. A worker that waited for those
// writes would leave outcomes unrecorded meanwhile, and would send them again
// after a crash.

// Bounds of what runs in the background.
const (
	// savesAtOnce is how many states are saved at a time.
	savesAtOnce = 16
	// saveEvery is how often one process writes the counts of one server, unless
	// they open or close its circuit.
	saveEvery = time.Second
	// saveTime is the longest that saving one state takes, and the longest that
	// Flush and Settle wait.
	saveTime = 5 * time.Second
)

// Lesson is a change of a server's shared state that a delivery has led to.
type Lesson struct {
	// Kind in one word. Of each kind only the latest unsaved lesson is kept, so a server
	// that leads to many lessons fills no memory.
	Kind string
	// Apply returns the changed state. It is applied to whatever the state is
	// when it is saved, possibly several times.
	Apply func(circuit.State) circuit.State
	// Before, if not nil, is called once before the state is saved, for what has
	// to be written elsewhere. It returns what else to apply.
	Before func(context.Context) (func(circuit.State) circuit.State, error)
}

// unsaved is what was learnt of a server, in order. It has at most one lesson of a kind,
// and one sum for attempts that follow each other.
type unsaved []step

// step is a lesson or, if that has no Apply, a sum of attempts.
type step struct {
	Lesson
	seen circuit.Observation
}

// apply returns s after all steps. If failures turned out to be those of one inbox and
// not of its host, culprit is that inbox, and blamed the last sum of its attempts.
func (u unsaved) apply(s circuit.State, r circuit.Rules, now time.Time) (after circuit.State, culprit string, blamed circuit.Observation) {
	for _, l := range u {
		if l.Apply != nil {
			s = l.Apply(s)
			continue
		}
		if inbox := s.Culprit(r, l.seen, now); inbox != "" {
			culprit, blamed = inbox, l.seen
		}
		s = s.Observe(r, l.seen, now)
	}
	return s, culprit, blamed
}

// with returns u followed by another step.
func (u unsaved) with(next step) unsaved {
	if u.plain() && len(u) == 1 && next.Apply == nil {
		return unsaved{{seen: u[0].seen.Then(next.seen)}}
	}
	all := make(unsaved, 0, len(u)+1)
	for i, l := range append(u[:len(u):len(u)], next) {
		last := len(all) - 1
		switch {
		case i < len(u) && l.Apply != nil && next.Apply != nil && l.Kind == next.Kind:
			// The later lesson of the kind stands for both.
		case l.Apply == nil && last >= 0 && all[last].Apply == nil:
			all[last].seen = all[last].seen.Then(l.seen)
		default:
			all = append(all, l)
		}
	}
	return all
}

// steady reports whether what was learnt of a server leaves its state as it is stored, now
// and later. Of almost all servers that is so.
func (k *host) steady() bool {
	return k.unsaved.plain() && k.saving.plain() && k.stored.Steady()
}

// plain reports whether u is successes only, or nothing.
func (u unsaved) plain() bool {
	return len(u) == 0 || len(u) == 1 && u[0].Apply == nil && u[0].seen.Plain()
}

// uncounted reports whether u does not change a state.
func (u unsaved) uncounted(s circuit.State, r circuit.Rules, now time.Time) bool {
	after, _, _ := u.apply(s, r, now)
	return after == s
}

// worthSaving reports whether what was learnt of a server changes its state.
// Successes that change nothing are kept back: they say what a later failure
// weighs, and are worth no write until then. Counts that decide nothing wait until
// saveEvery after the last write. Late answers of a server that is down are
// dropped.
func (h *Hosts) worthSaving(k *host) bool {
	if k.steady() {
		return false
	}
	now := h.now()
	after, _, _ := k.unsaved.apply(k.stored, h.rules, now)
	if after != k.stored {
		return k.unsaved.teaches() || lasted(k.written, now, saveEvery) ||
			after.Decision(now) != k.stored.Decision(now) || after.InboxesUntil != k.stored.InboxesUntil
	}
	if !k.unsaved.plain() && !k.unsaved.teaches() {
		k.unsaved = nil
	}
	return k.unsaved.teaches()
}

// teaches reports whether u has a lesson, and not only sums of attempts.
func (u unsaved) teaches() bool {
	return slices.ContainsFunc(u, func(s step) bool { return s.Apply != nil })
}

// Observe counts the outcome of an attempt at an inbox of a host. If that opens a circuit,
// the state is saved at once: every second that other processes do not know costs attempts.
func (h *Hosts) Observe(host, inbox string, out outcome.Outcome) {
	h.ObserveUnder(circuit.HostKey(host), circuit.Observation{}.Add(inbox, out))
}

// ObserveUnder counts attempts for the state of any key.
func (h *Hosts) ObserveUnder(key string, o circuit.Observation) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.entry(key, now)
	before := h.view(key, now)
	if o.Failures > 0 {
		k.accepted = time.Time{}
	}
	k.observed, k.took = now, cmp.Or(o.Took, k.took)
	o.Took = k.took
	if k.unsaved.plain() && lasted(k.began, now, h.rules.Window) {
		k.unsaved, k.began = nil, now
	}
	k.unsaved = k.unsaved.with(step{seen: o})
	if k.steady() {
		return
	}
	h.pending[key] = k
	after := h.view(key, now)
	if before.Decision(now) != after.Decision(now) || before.InboxesUntil != after.InboxesUntil {
		h.begin(key, k)
	}
}

// Learn adds a lesson about a server, unless what is known says so already and nothing has
// to be written before, and has it saved.
func (h *Hosts) Learn(key string, l Lesson) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if s := h.view(key, now); l.Before == nil && l.Apply(s) == s {
		return
	}
	k := h.entry(key, now)
	k.unsaved = k.unsaved.with(step{Lesson: l})
	h.pending[key] = k
	h.begin(key, k)
}

// begin saves what was learnt of a server, in the background. At most one goroutine saves
// a server's state at a time.
func (h *Hosts) begin(key string, k *host) {
	if k.saved != nil {
		return
	}
	k.saved = make(chan struct{})
	go func() {
		h.slots <- struct{}{}
		defer func() { <-h.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		defer cancel()
		if err := h.save(ctx, key, k); err != nil {
			// Deliveries are recorded all the same. Only the circuit has fewer outcomes.
			h.log.WarnContext(ctx, "what was learnt of a host could not be saved", "key", key, "error", err)
		}
	}()
}

// save saves until nothing is left to be saved. After an error the rest is kept for the
// next save.
func (h *Hosts) save(ctx context.Context, key string, k *host) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		close(k.saved)
		k.saved = nil
	}()
	for err == nil && h.worthSaving(k) {
		k.saving, k.unsaved = k.unsaved, nil
		base, saving := k.stored, k.saving
		h.mu.Unlock()
		var saved circuit.State
		saved, err = h.share(ctx, base, saving)
		h.mu.Lock()
		if err == nil {
			if last := saving[len(saving)-1:]; k.unsaved.plain() && last.plain() && last.uncounted(saved, h.rules, h.now()) {
				for _, l := range k.unsaved {
					last = last.with(l)
				}
				k.unsaved, k.began = last, h.now()
			}
			k.stored, k.turn, k.written = saved, h.next(), h.now()
		} else {
			for _, l := range k.unsaved {
				saving = saving.with(l)
			}
			k.unsaved = saving
		}
		k.saving = nil
	}
	return err
}

// share adds what was learnt to a server's shared state, and opens the circuit of
// an inbox that turns out to be to blame.
func (h *Hosts) share(ctx context.Context, base circuit.State, u unsaved) (circuit.State, error) {
	var errs []error
	for _, l := range u {
		if l.Before == nil {
			continue
		}
		more, err := l.Before(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		u = append(u[:len(u):len(u)], step{Lesson: Lesson{Apply: more}})
	}
	now, culprit, blamed := h.now(), "", circuit.Observation{}
	_, saved, err := circuit.ChangeFrom(ctx, h.store, base, func(s circuit.State) circuit.State {
		s, culprit, blamed = u.apply(s, h.rules, now)
		return s
	})
	if err != nil {
		return saved, errors.Join(append(errs, err)...)
	}
	if len(errs) > 0 {
		// The state is saved; repeating that for a rate limit would not pay.
		h.log.WarnContext(ctx, "what was learnt of a host was saved only in part", "key", base.Key, "error", errors.Join(errs...))
	}
	if culprit == "" {
		return saved, nil
	}
	_, inbox, err := circuit.Change(ctx, h.store, circuit.InboxKey(culprit), func(s circuit.State) circuit.State {
		return s.Fault(h.rules, blamed.Reason, blamed.Why, now)
	})
	if err == nil {
		h.Set(inbox)
	}
	return saved, err
}

// Flush saves everything that was learnt, and waits for that, because the process may be
// frozen afterwards. It gives up after 5 s; the rest is logged, and kept for the next
// time.
func (h *Hosts) Flush(ctx context.Context) error {
	h.mu.Lock()
	var keys []string
	for key, k := range h.pending {
		switch {
		case k.saved != nil, h.worthSaving(k):
			keys = append(keys, key)
		case k.steady(), len(k.unsaved) == 0:
			// Servers that are down are not steady, and there may be thousands.
			delete(h.pending, key)
		}
	}
	h.mu.Unlock()
	var g errgroup.Group
	for _, key := range keys {
		g.Go(func() error { return h.Settle(ctx, key) })
	}
	return g.Wait()
}

// Settle saves what has been learnt of one server, as Flush does of all. It
// returns an error only if it gave up waiting.
func (h *Hosts) Settle(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	h.mu.Lock()
	var saved chan struct{}
	if k, ok := h.known[key]; ok {
		if h.worthSaving(k) {
			h.begin(key, k)
		}
		saved = k.saved
	}
	h.mu.Unlock()
	if saved == nil {
		return nil
	}
	select {
	case <-saved:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("what was learnt of %s is not saved yet: %w", key, ctx.Err())
	}
}

// Change applies f to a server's shared state.
func (h *Hosts) Change(ctx context.Context, key string, f func(circuit.State) circuit.State) error {
	_, saved, err := circuit.Change(ctx, h.store, key, f)
	if err != nil {
		return err
	}
	h.Set(saved)
	return nil
}
