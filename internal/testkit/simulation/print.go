package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// screenful is how many lines a story has at most.
const screenful = 50

// String describes a story that broke a promise, on a screenful.
func (r Result) String() string {
	var b strings.Builder
	sc := r.Scenario
	if r.Violation == nil {
		return fmt.Sprintf("seed %d: all promises kept, %d calls, %d requests to inboxes, %s", sc.Seed, r.Calls, r.Requests, clock(r.Span))
	}
	head := r.head()
	lines := folded(r.Lines)
	if most := max(10, screenful-len(head)-3); len(lines) > most {
		left := len(lines) - most + 1
		lines = slices.Concat(lines[:most/3], []string{fmt.Sprintf("   … %d lines …", left)}, lines[most/3+left:])
	}
	fmt.Fprintf(&b, "seed %d breaks %q after %s: %s\n", sc.Seed, r.Violation.Kind, clock(r.Violation.At), r.Violation.Text)
	for _, l := range append(head, lines...) {
		b.WriteString("  ")
		if len(l) > 200 {
			l = l[:200] + "…"
		}
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String()
}

// head describes the story's parts.
func (r Result) head() []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	sc := r.Scenario
	for _, name := range slices.Sorted(maps.Keys(sc.Settings)) {
		add("%s=%s", name, sc.Settings[name])
	}
	for _, p := range sc.Processes {
		add("process %s: whole %t, %d workers or %d places of each queue, schedule %t, clock %s off, older %t", p.Name, p.Whole, p.Workers, p.Places, p.Schedule, p.Skew, p.Older)
	}
	if sc.Overlap || sc.Latency.Typical > 0 {
		add("scheduled runs overlap: %t; calls take %s", sc.Overlap, sc.Latency.Typical)
	}
	alike := map[string][]string{} // hosts without anything else, by their phases
	for _, s := range sc.Servers {
		says := phasesString(s.Phases)
		if s.plain() {
			if alike[says] = append(alike[says], s.Host); len(alike[says]) > 1 {
				continue
			}
		}
		if s.Rate > 0 {
			says += fmt.Sprintf(", at most %d a minute", s.Rate)
		}
		if s.Strict {
			says += ", drops all but RFC 9421"
		}
		if s.Sipher != nil {
			says += fmt.Sprintf("; speaks Sipher, known %t, inline %t, accepted %s, passes on%s",
				s.Sipher.Known, s.Sipher.Inline, s.Sipher.Accepted, phasesString(s.Sipher.Proxying))
		}
		add("%s: accepts%s", s.Host, says)
		for _, path := range slices.Sorted(maps.Keys(s.Inboxes)) {
			add("%s%s: accepts%s", s.Host, path, phasesString(s.Inboxes[path]))
		}
	}
	for _, says := range slices.Sorted(maps.Keys(alike)) {
		if hosts := alike[says]; len(hosts) > 1 {
			add("as %s: %s", hosts[0], strings.Join(hosts[1:], ", "))
		}
	}
	return all
}

// plain reports whether the phases of a server are all that there is to say of it.
func (s Server) plain() bool {
	return s.Rate == 0 && !s.Strict && s.Sipher == nil && len(s.Inboxes) == 0
}

func phasesString(ps []Phase) string {
	s := ""
	for _, p := range ps {
		s += fmt.Sprintf("; from %s %s", clock(p.From), p.Answer)
	}
	return s
}

// folded joins equal lines.
func folded(lines []string) []string {
	var all []string
	last, times := "", 0
	flush := func() {
		if times > 1 {
			all[len(all)-1] += fmt.Sprintf(" (%d times)", times)
		}
	}
	for _, l := range lines {
		what := l
		if len(l) > len(clock(0)) {
			what = l[len(clock(time.Hour)):]
		}
		if what == last {
			times++
			continue
		}
		flush()
		all, last, times = append(all, l), what, 1
	}
	flush()
	return all
}
