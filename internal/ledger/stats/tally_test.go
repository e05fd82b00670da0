package stats_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/testkit/property"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// memory is a store that can fail, before or after it has written.
type memory struct {
	mu     sync.Mutex
	items  map[string]map[string]stats.Counts // by day and process
	writes int
	fail   error
	lose   bool
}

func (m *memory) PutCounts(_ context.Context, day, process string, counts map[string]int, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if m.fail != nil && !m.lose {
		return m.fail
	}
	if m.items == nil {
		m.items = map[string]map[string]stats.Counts{}
	}
	if m.items[day] == nil {
		m.items[day] = map[string]stats.Counts{}
	}
	m.items[day][process] = maps.Clone(counts)
	return m.fail
}

func (m *memory) CountsOf(_ context.Context, day string) (map[string]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := map[string]int{}
	for _, counts := range m.items[day] {
		for name, n := range counts {
			sum[name] += n
		}
	}
	return sum, nil
}

func (m *memory) of(t interface{ Fatal(...any) }, day string) map[string]int {
	sum, err := m.CountsOf(context.Background(), day)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestManyDeliveriesAreOneWriteEveryFewSeconds(t *testing.T) {
	m, now := &memory{}, noon
	tally := stats.NewTally(m, "p", func() time.Time { return now })
	for second := range 60 {
		now = noon.Add(time.Duration(second) * time.Second)
		for range 100 {
			tally.Add("delivered", 1)
			if err := tally.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m.writes != 12 {
		t.Errorf("6000 deliveries in a minute are %d writes", m.writes)
	}
	if err := tally.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.of(t, "2026-11-21"); got["delivered"] != 6000 {
		t.Errorf("counted %v", got)
	}
	writes := m.writes
	now = now.Add(time.Hour)
	if err := tally.Flush(t.Context()); err != nil || m.writes != writes {
		t.Errorf("nothing new is written, %v", err)
	}
}

func TestADayIsCountedByItself(t *testing.T) {
	m, now := &memory{}, time.Date(2026, 11, 21, 23, 59, 59, 0, time.UTC)
	tally := stats.NewTally(m, "p", func() time.Time { return now })
	tally.Add("dead", 1)
	now = now.Add(time.Second)
	tally.Add("dead", 2)
	if err := tally.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * time.Hour)
	tally.Add("dead", 4)
	if err := tally.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for day, want := range map[string]int{"2026-11-21": 1, "2026-11-22": 2, "2026-11-23": 4} {
		if got := m.of(t, day)["dead"]; got != want {
			t.Errorf("%s: %d, want %d", day, got, want)
		}
	}
}

// TestCountsAreExactWhateverWritesFail, if no process is killed.
func TestCountsAreExactWhateverWritesFail(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m, now := &memory{}, noon
		tallies := []*stats.Tally{
			stats.NewTally(m, "a", func() time.Time { return now }), stats.NewTally(m, "b", func() time.Time { return now }),
		}
		want := map[string]map[string]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			tally := rapid.SampledFrom(tallies).Draw(t, "process")
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 6, 20_000}).Draw(t, "seconds")) * time.Second)
			name, n := rapid.SampledFrom([]string{"delivered", "dead"}).Draw(t, "name"), rapid.IntRange(0, 5).Draw(t, "n")
			tally.Add(name, n)
			day := now.Format(time.DateOnly)
			if want[day] == nil {
				want[day] = map[string]int{}
			}
			want[day][name] += n
			m.fail, m.lose = nil, rapid.Bool().Draw(t, "lost answer")
			if rapid.Bool().Draw(t, "fails") {
				m.fail = errors.New("down")
			}
			if err := tally.Flush(context.Background()); err != nil && m.fail == nil {
				t.Fatal(err)
			}
		}
		m.fail = nil
		for _, tally := range tallies {
			if err := tally.Settle(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for day, counts := range want {
			for name, n := range counts {
				if got := m.of(t, day)[name]; got != n {
					t.Fatalf("%s %s: %d, want %d", day, name, got, n)
				}
			}
		}
	})
}

func TestConcurrentCountsAddUp(t *testing.T) {
	m := &memory{}
	tally := stats.NewTally(m, "p", func() time.Time { return noon })
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				tally.Add("delivered", 1)
				if err := tally.Settle(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := m.of(t, "2026-11-21"); got["delivered"] != 1600 {
		t.Errorf("counted %v", got)
	}
}

func TestWhatIsRecordedIsCounted(t *testing.T) {
	m := &memory{}
	tally := stats.NewTally(m, "p", func() time.Time { return noon })
	stats.Meter{Tally: tally}.Recorded([]ledger.Recipient{
		{State: activity.Delivered, Target: activity.Target{Stands: 40}},
		{State: activity.Delivered},
		{State: activity.Dead},
		{State: activity.Parked},
		{State: activity.Retrying},
	})
	if err := tally.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.of(t, "2026-11-21"); !maps.Equal(got, map[string]int{"delivered": 41, "dead": 1, "retrying": 1}) {
		t.Errorf("counted %v", got)
	}
}

// meter records its calls.
type meter struct{ attempts, parked int }

func (m *meter) Attempted(activity.Activity, outcome.Outcome, activity.State) { m.attempts++ }
func (m *meter) Counted(_ string, n int)                                      { m.parked += n }

func TestAMeterIsPassedOn(t *testing.T) {
	m, next := &memory{}, &meter{}
	tally := stats.NewTally(m, "p", func() time.Time { return noon })
	for _, metered := range []stats.Meter{{Metrics: next, Tally: tally}, {Tally: tally}} {
		metered.Attempted(activity.Activity{}, outcome.Outcome{}, activity.Delivered)
		metered.Attempted(activity.Activity{}, outcome.Outcome{Try: outcome.Untried}, activity.Retrying)
		metered.Counted("Parked", 5)
	}
	if *next != (meter{2, 5}) {
		t.Errorf("passed on %+v", *next)
	}
	if err := tally.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.of(t, "2026-11-21"); !maps.Equal(got, map[string]int{stats.Attempts: 2, "parked": 10}) {
		t.Errorf("counted %v", got)
	}
}

// TestCountsThatCannotBeWrittenFailNothing: a delivery that is done is done.
func TestCountsThatCannotBeWrittenFailNothing(t *testing.T) {
	m := &memory{fail: errors.New("down")}
	tally := stats.NewTally(m, "p", func() time.Time { return noon })
	tally.Add("delivered", 1)
	var log bytes.Buffer
	stats.Meter{Tally: tally, Log: slog.New(slog.NewTextHandler(&log, nil))}.Flush(t.Context())
	if !strings.Contains(log.String(), "counts could not be written") {
		t.Errorf("logged %q", log.String())
	}
	if m.writes != 1 {
		t.Errorf("%d writes", m.writes)
	}
	m.fail = nil
	if err := tally.Settle(t.Context()); err != nil || m.of(t, "2026-11-21")["delivered"] != 1 {
		t.Errorf("lost: %v, %v", m.items, err)
	}
}
