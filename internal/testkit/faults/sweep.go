package faults

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"fedpost/internal/testkit/long"
)

// Sweep runs a piece of work once without a fault and then, as subtests, once for each call that it
// made and each kind of fault, entries of batches included. run has to build a fresh world around
// the plan, do the work, revive the plan, wait until all work is done, and check what must hold.
// Until the fault comes it must make the same calls each time; only calls of different methods may
// come in another order.
//
// Unless long tests run (package long), Sweep breaks at most fewCalls calls, spread over all, each
// in one way; the kind of fault changes from call to call.
func Sweep(t *testing.T, run func(t *testing.T, p *Plan)) {
	t.Helper()
	Sweeper{}.Sweep(t, run)
}

const fewCalls = 24

// Sweeper is a Sweep with options. The zero value sweeps as the function Sweep does.
type Sweeper struct {
	// Kinds are the only ones to try; all if nil.
	Kinds []Kind
	// Parallel runs the subtests side by side, which is quicker where they wait
	// for servers.
	Parallel bool
	// Thin, unless it is 0, breaks every Thin-th call, each in one way; the kind of fault changes
	// from call to call.
	Thin int
	// Few is how many calls to break at most unless long tests run; fewCalls if it is 0.
	Few int
	// Part leaves out calls; the zero value leaves out none.
	Part Part
}

// Part is one of Of parts of a sweep's calls, counted from 0: N, N+Of, N+2*Of and so on.
// All parts together are the sweep.
type Part struct{ N, Of int }

// ParsePart reads "0/2", the first of two halves. The empty string is the whole.
func ParsePart(s string) (Part, error) {
	var p Part
	if s == "" {
		return p, nil
	}
	if _, err := fmt.Sscanf(s, "%d/%d", &p.N, &p.Of); err != nil || p.N < 0 || p.N >= p.Of || s != fmt.Sprintf("%d/%d", p.N, p.Of) {
		return Part{}, fmt.Errorf("%q is no part of a sweep: write 0/2 or 1/2, the first or second half, or the like", s)
	}
	return p, nil
}

func (p Part) has(i int) bool { return p.Of == 0 || i%p.Of == p.N }

// Sweep is like the function Sweep, with the options of s.
func (s Sweeper) Sweep(t *testing.T, run func(t *testing.T, p *Plan)) {
	t.Helper()
	whole := NewPlan()
	if !t.Run("no fault", func(t *testing.T) { run(t, whole) }) {
		return
	}
	calls := whole.Calls()
	if len(calls) == 0 {
		t.Fatal("the work made no call: nothing to sweep")
	}
	thin := s.Thin
	if !long.On() {
		few := cmp.Or(s.Few, fewCalls)
		if long.UnderRace {
			few = min(few, fewCalls/4) // which take as long as all do without the race detector
		}
		thin = max(thin, (len(calls)+few-1)/few)
	}
	step := max(thin, 1)
	for i, c := range calls {
		if !s.Part.has(i) || i%step != 0 {
			continue
		}
		fs := s.faultsOf(c)
		if thin > 0 {
			fs = fs[i/step%len(fs):][:1]
		}
		for _, f := range fs {
			name := fmt.Sprintf("%s/%s", c, f.Kind)
			if f.Kind == FailEntry {
				name += fmt.Sprint(" ", f.Entry)
			}
			t.Run(name, func(t *testing.T) {
				if s.Parallel {
					t.Parallel()
				}
				p := NewPlan(f)
				run(t, p)
				if p.Fired() == 0 && !t.Failed() && !t.Skipped() {
					t.Errorf("the %s never came: this time the work made %d calls", f, len(p.Calls()))
				}
			})
		}
	}
}

// faultsOf lists what can go wrong with a call.
func (s Sweeper) faultsOf(c Call) []Fault {
	var all []Fault
	for _, k := range append(slices.Clone(Kinds), DieHalfway) {
		if f := (Fault{Like: &c, Kind: k}); f.Fits(c) && s.tries(k) {
			all = append(all, f)
		}
	}
	// The first, the last and one between stand for all entries.
	entries := []int{0, c.Entries / 2, c.Entries - 1}
	slices.Sort(entries)
	for _, i := range slices.Compact(entries) {
		if f := (Fault{Like: &c, Kind: FailEntry, Entry: i}); i >= 0 && f.Fits(c) && s.tries(FailEntry) {
			all = append(all, f)
		}
	}
	return all
}

func (s Sweeper) tries(k Kind) bool { return s.Kinds == nil || slices.Contains(s.Kinds, k) }
