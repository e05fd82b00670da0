package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/servers/circuit"
)

// What a delivery shows about its host is not part of the delivery's record: ObserveUnder and
// Learn change what this process knows, at once, and the shared state is saved in the
// background. If workers waited for that, their outcomes would be unrecorded meanwhile.

const (
	savesAtOnce = 16
	// saveEvery is the least time between two saves of one server's counts, unless they open or
	// close its circuit.
	saveEvery = time.Second
	// saveTime bounds one save, Flush and Settle.
	saveTime = 5 * time.Second
)

// Lesson is a change of a server's shared state that a delivery has led to.
type Lesson struct {
	// Kind in one word. Of each kind only the latest unsaved lesson is kept, which bounds the
	// memory.
	Kind string
	// Apply returns the changed state. It may be called several times.
	Apply func(circuit.State) circuit.State
	// Before, if not nil, is called once before the save, for writes elsewhere. It returns
	// another Apply.
	Before func(context.Context) (func(circuit.State) circuit.State, error)
}

// unsaved is what was learnt of a server, in order: at most one lesson of each kind, and one
// sum of attempts that follow each other.
type unsaved []step

// step is a lesson or, without Apply, a sum of attempts.
type step struct {
	Lesson
	seen circuit.Observation
}

// apply returns s after all steps. If the failures are those of one inbox and not of its host,
// culprit is that inbox, and blamed the sum of its attempts.
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

func (u unsaved) with(next step) unsaved {
	if u.plain() && len(u) == 1 && next.Apply == nil {
		return unsaved{{seen: u[0].seen.Then(next.seen)}}
	}
	all := make(unsaved, 0, len(u)+1)
	for i, l := range append(u[:len(u):len(u)], next) {
		last := len(all) - 1
		switch {
		case i < len(u) && l.Apply != nil && next.Apply != nil && l.Kind == next.Kind:
			// next replaces l.
		case l.Apply == nil && last >= 0 && all[last].Apply == nil:
			all[last].seen = all[last].seen.Then(l.seen)
		default:
			all = append(all, l)
		}
	}
	return all
}

// steady reports whether what was learnt leaves the stored state as it is, now and later, as
// for almost all servers.
func (k *host) steady() bool {
	return k.unsaved.plain() && k.saving.plain() && k.stored.Steady()
}

// plain reports whether u has successes only.
func (u unsaved) plain() bool {
	return len(u) == 0 || len(u) == 1 && u[0].Apply == nil && u[0].seen.Plain()
}

// uncounted reports whether u leaves a state as it is.
func (u unsaved) uncounted(s circuit.State, r circuit.Rules, now time.Time) bool {
	after, _, _ := u.apply(s, r, now)
	return after == s
}

// worthSaving reports whether what was learnt has to be saved now. Successes that change nothing
// are kept, to weigh later failures. Counts that decide nothing wait for saveEvery. Those that
// spend the budget of a server that accepts nothing do not wait: they are few, and a process that
// gets no more messages would never save them. Late answers of a server that is down are dropped.
func (h *Hosts) worthSaving(k *host) bool {
	if k.steady() {
		return false
	}
	now := h.now()
	after, _, _ := k.unsaved.apply(k.stored, h.rules, now)
	if after != k.stored {
		return k.unsaved.hasLessons() || lasted(k.written, now, saveEvery) || after.Vain > k.stored.Vain && !after.AcceptsLately(now) ||
			after.Decision(now) != k.stored.Decision(now) || after.InboxesUntil != k.stored.InboxesUntil
	}
	if !k.unsaved.plain() && !k.unsaved.hasLessons() {
		k.unsaved = nil
	}
	return k.unsaved.hasLessons()
}

// hasLessons reports whether u has a lesson, and not only sums of attempts.
func (u unsaved) hasLessons() bool {
	return slices.ContainsFunc(u, func(s step) bool { return s.Apply != nil })
}

// ObserveUnder counts attempts for the state of a key. If that opens a circuit, the state is
// saved at once.
func (h *Hosts) ObserveUnder(key string, o circuit.Observation) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.entry(key, now)
	before := h.view(key, now)
	if o.Failures > 0 {
		k.accepted = time.Time{}
	}
	if k.observed = now; o.Accepted > 0 {
		k.tookAt = now
	}
	k.took = cmp.Or(o.Took, k.took)
	o.Took, o.TookAt = k.took, k.tookAt
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

// Learn adds a lesson about a server and saves it, unless it changes nothing.
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

// begin saves what was learnt of a server in the background, in one goroutine per server.
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
			// Only the circuit misses these outcomes; the deliveries are recorded.
			h.log.WarnContext(ctx, "the state of a server could not be saved", "key", key, "error", err)
		}
	}()
}

// save saves until nothing is left. After an error the rest waits for the next save.
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
			k.stored, k.sequence, k.written = saved, h.next(), h.now()
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

// share applies what was learnt to the shared state, and opens the circuit of an inbox that is
// the culprit.
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
		// The state is saved; the rest is not worth a repetition.
		h.log.WarnContext(ctx, "the state of a server was saved only in part", "key", base.Key, "error", errors.Join(errs...))
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

// Flush saves everything and waits for that, up to 5 s, because the process may be frozen
// afterwards. What is not saved is logged and kept.
func (h *Hosts) Flush(ctx context.Context) error {
	h.mu.Lock()
	var keys []string
	for key, k := range h.pending {
		switch {
		case k.saved != nil, h.worthSaving(k):
			keys = append(keys, key)
		case k.steady(), len(k.unsaved) == 0:
			// Servers that are down are never steady, and there may be thousands.
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

// Settle is Flush for one server. It returns an error if it gave up waiting.
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
		return fmt.Errorf("the state of %s is not saved yet: %w", key, ctx.Err())
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
