package local

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// machine is a machine whose clock can be set and that can sleep.
type machine struct {
	wall          time.Time
	awake, asleep time.Duration
	tells         bool // sleep from jumps
}

func (m *machine) passes(d time.Duration) { m.wall, m.awake = m.wall.Add(d), m.awake+d }
func (m *machine) sleeps(d time.Duration) { m.wall, m.asleep = m.wall.Add(d), m.asleep+d }
func (m *machine) jumps(d time.Duration)  { m.wall = m.wall.Add(d) }

func (m *machine) clock(log *slog.Logger) *Clock {
	return newClock(func() (time.Time, time.Duration) { return m.wall, m.awake },
		func() (time.Duration, bool) { return m.asleep, m.tells }, log)
}

const week = 7 * 24 * time.Hour

func TestTheClockFollowsTimeThatPassesAndNoJump(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		deaf bool // the system does not tell sleep
		does func(m *machine)
		want time.Duration
	}{
		"an hour passes":                    {does: func(m *machine) { m.passes(time.Hour) }, want: time.Hour},
		"a week forward":                    {does: func(m *machine) { m.jumps(week); m.passes(time.Minute) }, want: time.Minute},
		"a week back":                       {does: func(m *machine) { m.jumps(-week); m.passes(time.Minute) }, want: time.Minute},
		"a small step":                      {does: func(m *machine) { m.jumps(5 * time.Second); m.passes(time.Minute) }, want: 65 * time.Second},
		"a small step back":                 {does: func(m *machine) { m.jumps(-5 * time.Second); m.passes(time.Minute) }, want: 55 * time.Second},
		"a night asleep":                    {does: func(m *machine) { m.sleeps(8 * time.Hour); m.passes(time.Minute) }, want: 8*time.Hour + time.Minute},
		"a jump while asleep":               {does: func(m *machine) { m.sleeps(8 * time.Hour); m.jumps(week) }, want: 8 * time.Hour},
		"a jump forward, told as any sleep": {deaf: true, does: func(m *machine) { m.jumps(week) }, want: week},
		"a jump back, sleep is not told":    {deaf: true, does: func(m *machine) { m.jumps(-week) }, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{wall: start, tells: !c.deaf}
			clock := m.clock(slog.New(slog.DiscardHandler))
			c.does(m)
			for range 2 {
				if got := clock.Now().Sub(start); got != c.want {
					t.Errorf("the clock has gone on by %s, want %s", got, c.want)
				}
			}
		})
	}
}

// TestAJumpForthAndBackLeavesNothingBehind: the clock is the machine's again.
func TestAJumpForthAndBackLeavesNothingBehind(t *testing.T) {
	var log strings.Builder
	m := &machine{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), tells: true}
	clock := m.clock(slog.New(slog.NewTextHandler(&log, nil)))
	m.jumps(week)
	clock.Now()
	m.passes(time.Hour)
	clock.Now()
	m.jumps(-week)
	if got := clock.Now(); !got.Equal(m.wall) {
		t.Errorf("the clock says %s, the machine %s", got, m.wall)
	}
	for _, want := range []string{"jump=168h0m0s off=168h0m0s", "jump=-168h0m0s off=0s"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// TestTheClockNeverGoesBackByAJump, whatever a machine does, and is never off by more than
// the small steps that it follows.
func TestTheClockNeverGoesBackByAJump(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := &machine{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), tells: true}
	clock := m.clock(slog.New(slog.DiscardHandler))
	start, last, passed := m.wall, clock.Now(), time.Duration(0)
	for range 10_000 {
		d := time.Duration(r.Int64N(int64(week)))
		switch r.IntN(3) {
		case 0:
			m.passes(d)
			passed += d
		case 1:
			m.sleeps(d)
			passed += d
		case 2:
			m.jumps(max(d, jump) * time.Duration(1-2*r.IntN(2)))
		}
		now := clock.Now()
		if now.Before(last) || now.Sub(start) != passed {
			t.Fatalf("the clock went from %s to %s, %s after its start; %s have passed", last, now, now.Sub(start), passed)
		}
		last = now
	}
}
