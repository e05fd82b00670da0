// Package stats counts what becomes of recipients, for an operator's overview.
//
// Each process adds up counts in memory and writes them as one small item, every five seconds at
// most. A process that is killed loses the counts of its last seconds; the exact numbers of an
// activity are in the ledger.
package stats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Store keeps the counts of processes, by day.
type Store interface {
	// PutCounts writes what a process has counted on a day so far, in place of
	// what it wrote before.
	PutCounts(ctx context.Context, day, process string, counts map[string]int, forget time.Time) error
	// CountsOf returns the sum of what all processes counted on a day.
	CountsOf(ctx context.Context, day string) (map[string]int, error)
}

// Counts are numbers of recipients by what became of them.
type Counts map[string]int

func (c Counts) Add(other Counts) {
	for name, n := range other {
		c[name] += n
	}
}

// Every is the shortest time between two writes of a process's counts.
const Every = 5 * time.Second

// Kept is how long counts are kept.
const Kept = 32 * 24 * time.Hour

// Tally has the counts of one process. It writes totals, not increments, to an item
// that no other process writes. So a write may be repeated, needs no condition, and
// never waits for another process.
type Tally struct {
	store   Store
	process string
	now     func() time.Time

	mu      sync.Mutex
	totals  Counts            // since the process began
	history *History          // nil: none is kept
	days    map[string]Counts // totals of this process
	dirty   map[string]bool
	written time.Time

	writing sync.Mutex
}

// NewTally returns the tally of a process. process is a name that no other process has.
func NewTally(store Store, process string, now func() time.Time) *Tally {
	return &Tally{store: store, process: process, now: now, totals: Counts{}, days: map[string]Counts{}, dirty: map[string]bool{}}
}

// Day is how the day of a time is named: its date in UTC.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Add counts n recipients.
func (t *Tally) Add(name string, n int) {
	if n == 0 {
		return
	}
	now := t.now()
	day := Day(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.totals[name] += n
	if t.history != nil {
		t.history.add(now, name, n)
	}
	if t.days[day] == nil {
		t.days[day] = Counts{}
	}
	t.days[day][name] += n
	t.dirty[day] = true
}

// Flush writes the counts, unless the last write is less than Every ago.
func (t *Tally) Flush(ctx context.Context) error {
	t.mu.Lock()
	soon := t.now().Sub(t.written) < Every
	t.mu.Unlock()
	if soon || !t.writing.TryLock() {
		return nil
	}
	defer t.writing.Unlock()
	return t.write(ctx)
}

// Settle writes the counts at once: before they are read, and when the process ends.
func (t *Tally) Settle(ctx context.Context) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.write(ctx)
}

func (t *Tally) write(ctx context.Context) error {
	t.mu.Lock()
	now := t.now()
	totals := map[string]Counts{}
	for day := range t.dirty {
		totals[day] = maps.Clone(t.days[day])
	}
	clear(t.dirty)
	t.written = now
	t.mu.Unlock()
	for _, day := range slices.Sorted(maps.Keys(totals)) {
		counts := totals[day]
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return fmt.Errorf("write counts: %w", err)
		}
		if err := t.store.PutCounts(ctx, day, t.process, counts, at.Add(Kept)); err != nil {
			t.markDirty(totals)
			return fmt.Errorf("write counts of %s: %w", day, err)
		}
	}
	t.forget(Day(now))
	return nil
}

// markDirty marks days whose counts may not be written.
func (t *Tally) markDirty(totals map[string]Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for day := range totals {
		t.dirty[day] = true
	}
}

// forget drops days that are over and written.
func (t *Tally) forget(today string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for day := range t.days {
		if day != today && !t.dirty[day] {
			delete(t.days, day)
		}
	}
}
