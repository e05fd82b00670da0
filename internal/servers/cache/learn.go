package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/servers/circuit"
)

// What a delivery shows about its host is not part of the delivery's record: ObserveUnder and
// Learn change what this process knows, at once, and the shared state is saved in the
// background. If workers waited for that, their outcomes would be unrecorded meanwhile.

const (
	savesAtOnce = 64
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
		return k.unsaved.hasLessons() || lasted(k.written, now, saveEvery) || spends(k.stored, after, now) ||
			after.Decision(now) != k.stored.Decision(now) || after.InboxesUntil != k.stored.InboxesUntil
	}
	if !k.unsaved.plain() && !k.unsaved.hasLessons() {
		k.unsaved = nil
	}
	return k.unsaved.hasLessons()
}

// spends reports whether a server that accepts nothing has cost more. A kill must not forget that.
func spends(before, after circuit.State, now time.Time) bool {
	return after.Vain > before.Vain && !after.AcceptsLately(now)
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
		h.place(k)
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
	h.await(k)
	after := h.view(key, now)
	if before.Decision(now) != after.Decision(now) || before.InboxesUntil != after.InboxesUntil || spends(before, after, now) {
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
	h.await(k)
	h.begin(key, k)
}

// begin has what was learnt of a server saved in the background. Strangers choose how many servers
// that is, so savesAtOnce goroutines save one after another.
func (h *Hosts) begin(key string, k *host) {
	if k.saved != nil {
		return
	}
	k.saved = make(chan struct{})
	h.unbegun = append(h.unbegun, key)
	if h.savers < savesAtOnce {
		h.savers++
		go h.saveAll()
	}
}

// saveAll saves servers until none waits to be saved.
func (h *Hosts) saveAll() {
	for {
		h.mu.Lock()
		if len(h.unbegun) == 0 {
			h.savers--
			h.unbegun = nil
			h.mu.Unlock()
			return
		}
		key := h.unbegun[0]
		h.unbegun = h.unbegun[1:]
		k := h.known[key]
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		if err := h.save(ctx, key, k); err != nil && h.firstFailure() {
			// Only the circuit misses these outcomes; the deliveries are recorded.
			h.log.WarnContext(ctx, "the state of a server could not be saved, and others may share that", "key", key, "error", err)
		}
		cancel()
	}
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

// Flush saves everything and waits for that, up to 5 s: for a process that may be frozen or end
// afterwards. What is not saved is logged and kept.
func (h *Hosts) Flush(ctx context.Context) error {
	h.mu.Lock()
	under, _ := h.beginPending()
	h.mu.Unlock()
	return saved(ctx, under)
}

// Settle is Flush for some servers.
func (h *Hosts) Settle(ctx context.Context, keys ...string) error {
	var under []chan struct{}
	h.mu.Lock()
	for _, key := range keys {
		k, ok := h.known[key]
		if ok && h.worthSaving(k) {
			h.begin(key, k)
		}
		if ok && k.saved != nil {
			under = append(under, k.saved)
		}
	}
	h.mu.Unlock()
	return saved(ctx, under)
}

// saved waits until saves have ended, up to saveTime.
func saved(ctx context.Context, under []chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	for n, saved := range under {
		select {
		case <-saved:
		case <-ctx.Done():
			return fmt.Errorf("of %d states of servers up to %d are not saved yet: %w", len(under), len(under)-n, ctx.Err())
		}
	}
	return nil
}

// FlushSoon saves everything within some seconds, for a process that goes on. However many
// callers it has, one timer waits.
func (h *Hosts) FlushSoon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending.Len() > 0 {
		h.flushIn(saveEvery)
	}
}

func (h *Hosts) flushIn(d time.Duration) {
	if h.timed {
		return
	}
	h.timed = true
	time.AfterFunc(d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.timed = false
		switch under, later := h.beginPending(); {
		case h.failed: // a table that refuses thousands of states is asked less often
			h.failed = false
			h.flushIn(saveTime)
		case later || len(under) > 0:
			h.flushIn(saveEvery)
		}
	})
}

// firstFailure reports whether no save has failed since the last look at all that is pending.
func (h *Hosts) firstFailure() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.failed
	h.failed = true
	return first
}

// beginPending begins to save all that is worth saving, and returns what tells when each save has
// ended, and whether more will be worth saving without another observation. Servers of which
// nothing is left to save are pending no more.
func (h *Hosts) beginPending() (under []chan struct{}, later bool) {
	now := h.now()
	for el := h.pending.Front(); el != nil; {
		k, this := el.Value.(*host), el
		el = el.Next()
		switch {
		case k.saved != nil:
			under = append(under, k.saved)
		case h.worthSaving(k):
			h.begin(k.stored.Key, k)
			under = append(under, k.saved)
		case k.steady(), len(k.unsaved) == 0:
			// Servers that are down are never steady, and there may be thousands.
			h.pending.Remove(this)
			k.pending = nil
		default:
			later = later || !lasted(k.written, now, saveEvery)
		}
	}
	return under, later
}

// await has a server looked at by the next Flush.
func (h *Hosts) await(k *host) {
	if k.pending == nil {
		k.pending = h.pending.PushBack(k)
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
