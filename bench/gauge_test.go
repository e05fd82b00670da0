package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// grown bounds the growth of a figure that should be flat: the mean of the last quarter of
// a soak is at most grown times the mean of the second quarter. The first quarter is for
// warming up.
const grown = 1.2

// gauge samples what a process uses.
type gauge struct {
	t       testing.TB
	pid     int
	data    string
	done    func() int // deliveries so far
	begin   time.Time
	samples []sample
	stop    func()
}

// sample is what a process uses at a time. Memory is its resident set.
type sample struct {
	at           time.Duration
	done         int
	memory, file int64 // bytes
}

// measure samples each second until stop is called.
func measure(t testing.TB, pid int, data string, done func() int) *gauge {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sampling sync.WaitGroup
	g := &gauge{t: t, pid: pid, data: data, done: done, begin: time.Now()}
	g.stop = func() { cancel(); sampling.Wait() }
	sampling.Go(func() {
		for ctx.Err() == nil {
			s, err := g.sample()
			if err != nil {
				t.Errorf("measure: %v", err)
				return
			}
			g.samples = append(g.samples, s)
			rest(ctx, time.Second)
		}
	})
	return g
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

func (g *gauge) sample() (sample, error) {
	s := sample{at: time.Since(g.begin), done: g.done()}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid))
	if err != nil {
		return s, err
	}
	found := resident.FindSubmatch(status)
	if found == nil {
		return s, fmt.Errorf("no memory in %q", status)
	}
	if s.memory, err = strconv.ParseInt(string(found[1]), 10, 64); err != nil {
		return s, err
	}
	s.memory <<= 10
	files, err := filepath.Glob(filepath.Join(g.data, "fedpost.db*"))
	for _, name := range files {
		if info, err := os.Stat(name); err == nil { // SQLite's other files come and go
			s.file += info.Size()
		}
	}
	return s, err
}

// flat checks that memory has not grown, and that what is stored of a delivery
// has not. The file itself grows with what it keeps: records stay for a day at
// least, which no soak lasts.
func (g *gauge) flat() {
	g.t.Helper()
	last := g.samples[len(g.samples)-1]
	const rows = 16
	g.t.Logf("%10s %10s %10s %10s %10s", "time", "deliveries", "a second", "memory MB", "file MB")
	before := g.samples[0]
	for row := 1; row <= rows; row++ {
		s := g.at(last.done * row / rows)
		g.t.Logf("%10s %10d %10.0f %10.1f %10.1f", s.at.Round(time.Second), s.done, float64(s.done-before.done)/max(0.001, (s.at-before.at).Seconds()), mega(s.memory), mega(s.file))
		before = s
	}
	mean := func(quarter int, of func(sample) float64) float64 {
		sum, n := 0.0, 0.0
		for _, s := range g.samples {
			if s.done >= last.done*(quarter-1)/4 && s.done <= last.done*quarter/4 {
				sum, n = sum+of(s), n+1
			}
		}
		return sum / max(1, n)
	}
	for _, v := range []struct {
		name string
		of   func(sample) float64
	}{
		{"MB of memory", func(s sample) float64 { return mega(s.memory) }},
		{"bytes of file for each delivery so far", func(s sample) float64 { return float64(s.file) / max(1, float64(s.done)) }},
	} {
		second, end := mean(2, v.of), mean(4, v.of)
		g.t.Logf("%s: %.1f in the second quarter, %.1f in the last (%.2f times)", v.name, second, end, end/second)
		if end > grown*second {
			g.t.Errorf("%s grew from %.1f in the second quarter to %.1f in the last", v.name, second, end)
		}
	}
}

// at is the first sample with so many deliveries.
func (g *gauge) at(done int) sample {
	for _, s := range g.samples {
		if s.done >= done {
			return s
		}
	}
	return g.samples[len(g.samples)-1]
}

func mega(bytes int64) float64 { return float64(bytes) / (1 << 20) }
