package simulation

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// Shrink leaves things out of a scenario for as long as the same promise is broken
// without them (delta debugging, Zeller and Hildebrandt 2002), or until a time is
// over. It returns the last result that broke it.
func Shrink(t *testing.T, r Result, within time.Duration) Result {
	end := time.Now().Add(within)
	best := r
	sc := r.Scenario
	if sc.Faults.At == nil {
		// From here on exactly those calls fail that failed before.
		sc.Faults = Faults{Until: sc.Faults.Until, At: maps.Clone(r.Troubles)}
		again := Run(t, sc)
		if again.Violation == nil || again.Violation.Kind != r.Violation.Kind {
			return r
		}
		best = again
	}
	try := func(without map[string]bool) bool {
		shorter := sc.without(without)
		again := Run(t, shorter)
		if again.Violation == nil || again.Violation.Kind != r.Violation.Kind {
			return false
		}
		best = again
		return true
	}
	out := map[string]bool{}
	parts := sc.parts()
	for size := max(1, len(parts)/2); time.Now().Before(end); {
		progress := false
		for i := 0; i < len(parts) && time.Now().Before(end); {
			some := parts[i:min(i+size, len(parts))]
			without := maps.Clone(out)
			for _, p := range some {
				without[p] = true
			}
			if !try(without) {
				i += size
				continue
			}
			out, progress = without, true
			parts = slices.Delete(slices.Clone(parts), i, i+len(some))
		}
		switch {
		case size > 1:
			size = min(size/2, max(1, len(parts)/2))
		case !progress:
			return best
		}
	}
	return best
}

// events counts what happens in a scenario: acts, servers that change, and calls that fail.
func (sc Scenario) events() int {
	n := len(sc.Acts) + len(sc.Faults.At)
	for _, s := range sc.Servers {
		n += len(s.Phases)
		for _, ps := range s.Inboxes {
			n += len(ps)
		}
	}
	return n
}

// parts lists what can be left out, by name.
func (sc Scenario) parts() []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i := range sc.Acts {
		add("act %d", i)
	}
	all = append(all, slices.Sorted(maps.Keys(sc.Faults.At))...)
	for i, s := range sc.Servers {
		for j := range s.Phases {
			add("server %d phase %d", i, j)
		}
		for _, path := range slices.Sorted(maps.Keys(s.Inboxes)) {
			for j := range s.Inboxes[path] {
				add("server %d inbox %s phase %d", i, path, j)
			}
		}
		if s.Rate > 0 {
			add("server %d rate", i)
		}
		if s.Strict {
			add("server %d strict", i)
		}
		if s.Sipher != nil {
			add("server %d", i)
			for j := range s.Sipher.Proxying {
				add("server %d proxying %d", i, j)
			}
		}
	}
	for i, a := range sc.Acts {
		if a.Post == nil {
			continue
		}
		for j := range a.Post.Recipients {
			add("act %d recipient %d", i, j)
		}
		for _, field := range []string{"text", "ordering", "delay", "expires", "key", "priority", "twins", "batch", "subject"} {
			add("act %d %s", i, field)
		}
	}
	for i, p := range sc.Processes {
		if i > 0 {
			add("process %d", i)
		}
		if p.Workers > 1 {
			add("process %d workers", i)
		}
		if p.Skew != 0 {
			add("process %d skew", i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sc.Settings)) {
		add("setting %s", name)
	}
	return append(all, "latency", "overlap")
}

// without is the scenario without some of its parts.
func (sc Scenario) without(out map[string]bool) Scenario {
	is := func(format string, args ...any) bool { return out[fmt.Sprintf(format, args...)] }
	r := sc
	r.Acts, r.Servers, r.Processes = nil, nil, nil
	used := map[string]bool{}
	for i, a := range sc.Acts {
		if is("act %d", i) {
			continue
		}
		if a.Post != nil {
			p := a.Post.without(func(part string) bool { return is("act %d %s", i, part) })
			if len(p.Recipients) == 0 {
				continue
			}
			for _, to := range p.Recipients {
				used[to.Server] = true
			}
			a.Post = &p
		}
		r.Acts = append(r.Acts, a)
	}
	for i, s := range sc.Servers {
		if s.Sipher != nil && !is("server %d", i) {
			sipher := *s.Sipher
			sipher.Proxying = keep(sipher.Proxying, func(j int) bool { return is("server %d proxying %d", i, j) })
			s.Sipher, used[s.Host] = &sipher, true
		}
		if !used[s.Host] {
			continue
		}
		s.Phases = keep(s.Phases, func(j int) bool { return is("server %d phase %d", i, j) })
		inboxes := map[string][]Phase{}
		for path, ps := range s.Inboxes {
			if ps = keep(ps, func(j int) bool { return is("server %d inbox %s phase %d", i, path, j) }); len(ps) > 0 {
				inboxes[path] = ps
			}
		}
		s.Inboxes = inboxes
		if is("server %d rate", i) {
			s.Rate = 0
		}
		s.Strict = s.Strict && !is("server %d strict", i)
		r.Servers = append(r.Servers, s)
	}
	r.Acts = slices.DeleteFunc(r.Acts, func(a Act) bool { return a.Host != "" && !used[a.Host] })
	for i, p := range sc.Processes {
		if is("process %d", i) {
			continue
		}
		if is("process %d workers", i) {
			p.Workers = 1
		}
		if is("process %d skew", i) {
			p.Skew = 0
		}
		r.Processes = append(r.Processes, p)
	}
	r.Settings = maps.Clone(sc.Settings)
	maps.DeleteFunc(r.Settings, func(name, _ string) bool { return is("setting %s", name) })
	r.Faults.At = maps.Clone(sc.Faults.At)
	maps.DeleteFunc(r.Faults.At, func(name string, _ Trouble) bool { return out[name] })
	if is("latency") {
		r.Latency = Latency{}
	}
	r.Overlap = sc.Overlap && !is("overlap")
	return r
}

func (p Post) without(is func(part string) bool) Post {
	p.Recipients = keep(p.Recipients, func(j int) bool { return is(fmt.Sprintf("recipient %d", j)) })
	if is("text") {
		p.Text = "hello"
	}
	if is("ordering") {
		p.Ordering, p.After = "", 0
	}
	if is("delay") {
		p.Delay = 0
	}
	if is("expires") {
		p.Expires = 0
	}
	if is("key") {
		p.Dedup, p.Patience, p.Twins = "", 0, 0
	}
	if is("twins") {
		p.Twins = 0
	}
	if is("batch") {
		p.Batch = 0
	}
	if is("subject") {
		p.Subject = ""
	}
	if is("priority") {
		p.Priority = ""
	}
	return p
}

func keep[T any](all []T, out func(i int) bool) []T {
	var kept []T
	for i, one := range all {
		if !out(i) {
			kept = append(kept, one)
		}
	}
	return kept
}
