package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/servers/ratelimit"
	"fedpost/internal/testkit/property"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestTakeGrantsTheBurstAndThenTheRate(t *testing.T) {
	l := ratelimit.Limit{PerMinute: 60, Burst: 3}
	for _, step := range []struct {
		at, n, granted int // at in seconds
		later          []int
	}{
		{0, 2, 2, nil},
		{0, 3, 1, []int{1, 2}},
		{0, 1, 0, []int{1}},
		{1, 2, 1, []int{2}},
		{2, 0, 0, nil},
		{3, 1, 1, nil},
		{60, 5, 3, []int{61, 62}},
	} {
		now := start.Add(time.Duration(step.at) * time.Second)
		var granted int
		var later []time.Time
		granted, l, later = l.Take(step.n, now)
		if granted != step.granted || len(later) != len(step.later) {
			t.Fatalf("at %d s: granted %d, later %v", step.at, granted, later)
		}
		for i, s := range step.later {
			if want := start.Add(time.Duration(s) * time.Second); !later[i].Equal(want) {
				t.Errorf("at %d s: delivery %d may go at %v, want %v", step.at, i, later[i], want)
			}
		}
	}
}

func TestTakeGrantsAllWithoutALimit(t *testing.T) {
	for name, l := range map[string]ratelimit.Limit{
		"none":    {},
		"expired": {PerMinute: 1, LearntAt: start.Add(-time.Hour), Until: start},
	} {
		granted, after, later := l.Take(1000, start)
		if granted != 1000 || later != nil || after != l {
			t.Errorf("%s: granted %d, %v, %+v", name, granted, later, after)
		}
	}
}

func TestNoMoreThanBurstAndRateIsGranted(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		l := ratelimit.Limit{
			PerMinute: rapid.IntRange(1, 600).Draw(t, "per minute"),
			Burst:     rapid.IntRange(1, 100).Draw(t, "burst"),
		}
		gap := time.Minute / time.Duration(l.PerMinute)
		type grant struct {
			at time.Time
			n  int
		}
		var grants []grant
		now := start
		for range rapid.IntRange(1, 30).Draw(t, "takes") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*gap)).Draw(t, "pause")))
			n := rapid.IntRange(1, 50).Draw(t, "n")
			granted, after, later := l.Take(n, now)
			if granted+len(later) != n {
				t.Fatalf("%d granted, %d later, of %d", granted, len(later), n)
			}
			if granted == 0 && after != l {
				t.Fatalf("nothing granted, but %+v became %+v", l, after)
			}
			l = after
			grants = append(grants, grant{now, granted})
			for i, at := range later {
				if !at.After(now) {
					t.Fatalf("delivery %d was refused at %v for %v", i, now, at)
				}
			}
			if len(later) > 0 {
				// The retry time is not too late: at that time one delivery may
				// go.
				if g, _, _ := l.Take(1, later[0]); g != 1 {
					t.Fatalf("refused at the time that was given: %v", later[0])
				}
			}
		}
		for i := range grants {
			sum := 0
			for _, g := range grants[i:] {
				sum += g.n
				if limit := l.Burst + int(g.at.Sub(grants[i].at)/gap); sum > limit {
					t.Fatalf("%d granted in %v, at most %d", sum, g.at.Sub(grants[i].at), limit)
				}
			}
		}
	})
}

func TestALimitStartsFromWhatWorkedHalvesAndGrows(t *testing.T) {
	at := func(d time.Duration) time.Time { return start.Add(d) }
	first := ratelimit.Limit{}.Learn(300, start)
	for _, c := range []struct {
		name      string
		got       ratelimit.Limit
		perMinute int
		until     time.Time
	}{
		{"first", first, 300, at(time.Hour)},
		{"rate not known", ratelimit.Limit{}.Learn(0, start), 60, at(time.Hour)},
		{"answer to what was sent before", first.Learn(300, at(30*time.Second)), 300, at(time.Hour)},
		{"second", first.Learn(140, at(2*time.Minute)), 150, at(time.Hour + 2*time.Minute)},
		{"second, rate not known", first.Learn(0, at(2*time.Minute)), 150, at(time.Hour + 2*time.Minute)},
		{"never below one", ratelimit.Limit{}.Learn(1, start).Learn(1, at(2*time.Minute)), 1, at(time.Hour + 2*time.Minute)},
		{"after it ended", first.Learn(500, at(2*time.Hour)), 500, at(3 * time.Hour)},
		{"set by an operator", ratelimit.Limit{PerMinute: 10}.Learn(300, start), 10, time.Time{}},
	} {
		if c.got.PerMinute != c.perMinute || !c.got.Until.Equal(c.until) || !c.got.Forget.Equal(c.until) {
			t.Errorf("%s: %+v", c.name, c.got)
		}
	}
	if first.InForce(at(time.Hour)) || !first.InForce(at(time.Hour-1)) {
		t.Error("a learnt limit does not end when it says")
	}
	// The limit doubles with each minute in which it is used and, after another 429, up to
	// the rate that was too much; from there it grows by a step.
	l, now := ratelimit.Limit{}.Learn(30, start), start.Add(5*time.Minute)
	grows := func(wants ...int) {
		t.Helper()
		for minute, want := range wants {
			if _, l, _ = l.Take(1, now.Add(time.Duration(minute)*time.Minute)); l.PerMinute != want {
				t.Errorf("%d a minute after %d minutes, want %d", l.PerMinute, minute, want)
			}
		}
		now = now.Add(time.Duration(len(wants)) * time.Minute)
	}
	grows(30, 60, 120, 240)
	l, now = l.Learn(0, now), now.Add(5*time.Minute)
	grows(120, 132, 144)
	l, now = l.Learn(0, now).Learn(0, now.Add(2*time.Minute)), now.Add(5*time.Minute)
	grows(36, 39, 42)
	if _, idle, _ := l.Take(0, now.Add(10*time.Minute)); idle.PerMinute != 42 {
		t.Errorf("it grew to %d without use", idle.PerMinute)
	}
	if _, set, _ := (ratelimit.Limit{PerMinute: 10}).Take(1, at(time.Hour)); set.PerMinute != 10 {
		t.Errorf("an operator's limit grew to %d", set.PerMinute)
	}
}

// TestALearntLimitGrowsBeforeItsNextMinuteIsBooked: each rate held for a minute too long, and for
// one more where a run came a little less than a minute after the one before.
func TestALearntLimitGrowsBeforeItsNextMinuteIsBooked(t *testing.T) {
	l := ratelimit.Limit{}.Learn(10, start)
	for run, want := range []int{10, 20, 40, 80} {
		now := start.Add(time.Duration(run) * (time.Minute - time.Second))
		slots, next := l.Book(1000, time.Minute, now)
		if l = next; len(slots) < want-3 || len(slots) > want+3 {
			t.Errorf("run %d books %d slots for a minute, want %d", run, len(slots), want)
		}
		if took, _, _ := l.Take(1000, now.Add(time.Second)); took > 7 {
			t.Errorf("%d more may go at once", took)
		}
	}
}

func TestBookedSlotsAreDistinctAndKeepTheRate(t *testing.T) {
	l := ratelimit.Limit{PerMinute: 60, Burst: 2}
	seen := map[time.Time]int{}
	for i := range 5 {
		var slots []time.Time
		slots, l = l.Book(10, time.Minute, start)
		for _, s := range slots {
			seen[s]++
		}
		if i < 5 && len(slots) != 10 {
			t.Errorf("booking %d got %d slots", i, len(slots))
		}
	}
	for at, n := range seen {
		if at.After(start) && n > 1 || n > 2 {
			t.Errorf("%d deliveries share %s", n, at.Sub(start))
		}
	}
	if slots, after := l.Book(100, time.Minute, start); len(slots) != 12 || slots[11].Sub(start) != time.Minute {
		t.Errorf("%d slots up to the horizon; then %+v", len(slots), after)
	}
	if slots, after := l.Book(1, 0, start); len(slots) != 0 || after != l {
		t.Errorf("%v beyond the horizon", slots)
	}
}

// booked is a Booker that counts its bookings.
type booked struct{ n int }

func (b *booked) Book(_ context.Context, _ string, n int, _ time.Duration) ([]time.Time, error) {
	b.n++
	var slots []time.Time
	for i := range n {
		slots = append(slots, start.Add(time.Duration(b.n*100+i)*time.Second))
	}
	return slots, nil
}

func TestAStashBooksForManyAndForgetsHosts(t *testing.T) {
	b := &booked{}
	s := &ratelimit.Stash{Booker: b, Now: func() time.Time { return start }}
	seen := map[time.Time]bool{}
	for range 100 {
		at, ok, err := s.Slot(t.Context(), "a.example")
		if err != nil || !ok || seen[at] {
			t.Fatalf("the slot is %s, %v, error %v; want one that is free", at, ok, err)
		}
		seen[at] = true
	}
	if b.n != 10 {
		t.Errorf("%d bookings for 100 slots", b.n)
	}
	for i := range 10_000 {
		if _, _, err := s.Slot(t.Context(), fmt.Sprintf("h%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Hosts(); n > 1000 {
		t.Errorf("slots of %d hosts are kept", n)
	}
}

func TestAnOperatorsLimitReplacesWhatWasLearnt(t *testing.T) {
	l := ratelimit.Limit{Version: "v"}.Learn(300, start).Set(20, 5, start)
	if !l.InForce(start.Add(1000*time.Hour)) || l.PerMinute != 20 || l.Burst != 5 || l.Version != "v" || !l.Forget.IsZero() {
		t.Errorf("set: %+v", l)
	}
	if l = l.Set(0, 0, start); l.InForce(start) || !l.Forget.Equal(start) {
		t.Errorf("unset: %+v", l)
	}
}

// contested is a store of one limit that other workers change between load and
// save, up to n times.
type contested struct {
	limit  ratelimit.Limit
	exists bool
	others int
	saves  int
}

func (c *contested) Limits(context.Context, ...string) (map[string]ratelimit.Limit, error) {
	if !c.exists {
		return nil, nil
	}
	return map[string]ratelimit.Limit{c.limit.Host: c.limit}, nil
}

func (c *contested) SaveLimit(_ context.Context, l ratelimit.Limit) (ratelimit.Limit, error) {
	if c.others > 0 {
		c.others--
		_, c.limit, _ = c.limit.Take(1, start)
		return l, ratelimit.ErrChanged
	}
	c.saves++
	c.limit, c.exists = l, true
	return l, nil
}

func TestReserveTakesForAWholeBatchInOneWrite(t *testing.T) {
	c := &contested{limit: ratelimit.Limit{Host: "a.example", PerMinute: 60, Burst: 5}, exists: true, others: 2}
	r := ratelimit.Limiter{Store: c, Now: func() time.Time { return start }}
	times, err := r.Reserve(t.Context(), "a.example", 6)
	if err != nil {
		t.Fatal(err)
	}
	// Other workers have taken two of the five meanwhile.
	for i, want := range []int{0, 0, 0, 1, 2, 3} {
		if want == 0 && !times[i].IsZero() || want > 0 && !times[i].Equal(start.Add(time.Duration(want)*time.Second)) {
			t.Errorf("delivery %d may go at %v", i, times[i])
		}
	}
	if c.saves != 1 {
		t.Errorf("%d writes", c.saves)
	}
	if times, err = r.Reserve(t.Context(), "b.example", 2); err != nil || !times[0].IsZero() || !times[1].IsZero() || c.saves != 1 {
		t.Errorf("a host without a limit: %v, %v, %d writes", times, err, c.saves)
	}
}

func TestLimitsAreSetLearntAndShown(t *testing.T) {
	c := &contested{}
	r := ratelimit.Limiter{Store: c, Now: func() time.Time { return start }}
	if l, err := r.Learn(t.Context(), "a.example", 100); err != nil || l.PerMinute != 100 {
		t.Errorf("Learn: %+v, %v", l, err)
	}
	if l, err := r.Set(t.Context(), "a.example", 12, 0); err != nil || l.PerMinute != 12 {
		t.Errorf("Set: %+v, %v", l, err)
	}
	if l, ok, err := r.Limit(t.Context(), "a.example"); err != nil || !ok || l.PerMinute != 12 || l.Host != "a.example" {
		t.Errorf("Limit: %+v, %v, %v", l, ok, err)
	}
	if _, ok, err := r.Limit(t.Context(), "b.example"); err != nil || ok {
		t.Errorf("Limit of another: %v, %v", ok, err)
	}
}

// TestAHigherLimitIsFeltAtOnce: although slots were booked for hours at the lower
// rate.
func TestAHigherLimitIsFeltAtOnce(t *testing.T) {
	slots, l := ratelimit.Limit{PerMinute: 1}.Book(600, ratelimit.Horizon, start)
	if len(slots) != 600 {
		t.Fatalf("%d slots", len(slots))
	}
	for _, c := range []struct {
		perMinute int
		wait      time.Duration
	}{{600, time.Minute}, {60, 10 * time.Minute}, {1, 10 * time.Hour}} {
		set := l.Set(c.perMinute, 1, start)
		next, _ := set.Book(1, 2*ratelimit.Horizon, start)
		if at := next[0].Sub(start); at > c.wait {
			t.Errorf("set to %d a minute, the next delivery goes after %s, want %s at most", c.perMinute, at, c.wait)
		}
	}
}
