package simulation

import (
	"fmt"
	"hash/fnv"
	"time"
)

// story is the report of a run.
type story struct {
	began    time.Time
	hash     uint64
	lines    []string
	troubles map[string]Trouble
	// verbose: every call is in lines.
	verbose bool
}

// call records a call that is made.
func (s *story) call(p *process, h *held, f fate) {
	line := fmt.Sprint(time.Since(s.began), " ", h.name, " ", h.About, f.fault.Kind)
	sum := fnv.New64a()
	fmt.Fprint(sum, s.hash, line)
	s.hash = sum.Sum64()
	if s.verbose {
		s.lines = append(s.lines, line)
	}
}

// fault records a call that fails by chance.
func (s *story) fault(name string, t Trouble) {
	s.troubles[name] = t
	s.print("trouble: %s %s", name, t)
}

// print adds a line for readers.
func (s *story) print(format string, args ...any) {
	s.lines = append(s.lines, clock(time.Since(s.began))+" "+fmt.Sprintf(format, args...))
}

// clock is a time since the beginning, for readers.
func clock(d time.Duration) string {
	days := d / (24 * time.Hour)
	d -= days * 24 * time.Hour
	return fmt.Sprintf("%2dd %02d:%02d:%06.3f", days, int(d.Hours()), int(d.Minutes())%60, (d % time.Minute).Seconds())
}
