package stats

import "time"

// Span is how far back a history goes.
const Span = 24 * time.Hour

const minutes = int64(Span / time.Minute)

// History has a process's counts of each minute of the last 24 hours, for charts. It is kept in
// memory and begins with the process. Span and the number of names bound its size.
type History struct {
	since time.Time
	ring  [minutes]minute
}

// minute has the counts of one minute.
type minute struct {
	number int64 // since 1970
	counts Counts
}

func numberOf(t time.Time) int64 { return t.Unix() / 60 }

func (h *History) add(now time.Time, name string, n int) {
	number := numberOf(now)
	m := &h.ring[number%minutes]
	if m.number != number {
		*m = minute{number: number, counts: Counts{}}
	}
	m.counts[name] += n
}

// Series are counts over time, in steps of equal length.
type Series struct {
	// From is the beginning of the first step. The last step is not over.
	From time.Time
	Step time.Duration
	// Since is when the process began to count: earlier counts are unknown, not zero.
	Since time.Time
	// Counts have a number for each step, by name. A name without a count is absent.
	Counts map[string][]int
}

// series returns the last steps of a length, which is a whole number of minutes, up to
// now. Steps begin at multiples of their length, so that they do not shift from call to
// call.
func (h *History) series(now time.Time, step time.Duration, steps int) Series {
	per := int64(step / time.Minute)
	first := (numberOf(now)/per - int64(steps) + 1) * per
	s := Series{From: time.Unix(first*60, 0).UTC(), Step: step, Since: h.since, Counts: map[string][]int{}}
	for _, m := range h.ring {
		if m.counts == nil || m.number < first || m.number > numberOf(now) {
			continue
		}
		for name, n := range m.counts {
			if s.Counts[name] == nil {
				s.Counts[name] = make([]int, steps)
			}
			s.Counts[name][(m.number-first)/per] += n
		}
	}
	return s
}

// Remember makes t keep a history from now on.
func (t *Tally) Remember() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history = &History{since: t.now().UTC()}
}

// Series returns counts over time, the last step under way; ok is false if t keeps no
// history. step is a whole number of minutes, and all steps together are Span at most.
func (t *Tally) Series(step time.Duration, steps int) (s Series, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.history == nil {
		return Series{}, false
	}
	return t.history.series(t.now(), step, steps), true
}

// Totals returns what was counted since t was made.
func (t *Tally) Totals() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Counts{}
	all.Add(t.totals)
	return all
}
