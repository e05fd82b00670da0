package stats_test

import (
	"slices"
	"testing"
	"time"

	"fedpost/internal/ledger/stats"
)

func TestAHistoryHasTheLastDayMinuteByMinute(t *testing.T) {
	now := noon.Add(30 * time.Second)
	tally := stats.NewTally(&memory{}, "p", func() time.Time { return now })
	tally.Add("delivered", 100)
	tally.Remember()
	// Three days, one delivery a minute: two of them have to be forgotten.
	for range 3 * 24 * 60 {
		now = now.Add(time.Minute)
		tally.Add("delivered", 1)
	}
	tally.Add("dead", 7)

	hour, ok := tally.Series(time.Minute, 60)
	if !ok || len(hour.Counts["delivered"]) != 60 || !slices.Equal(hour.Counts["delivered"], slices.Repeat([]int{1}, 60)) {
		t.Errorf("the hour is %+v", hour)
	}
	if last := hour.From.Add(59 * time.Minute); !last.Equal(now.Truncate(time.Minute)) || hour.Counts["dead"][59] != 7 {
		t.Errorf("the last minute is %v of %+v", last, hour)
	}
	day, _ := tally.Series(15*time.Minute, 96)
	sum := 0
	for _, n := range day.Counts["delivered"] {
		sum += n
	}
	// The last step has just begun.
	if want := 95*15 + 1; sum != want || day.From.Minute()%15 != 0 || !day.Since.Equal(noon.Add(30*time.Second)) {
		t.Errorf("the day has %d from %v since %v, want %d", sum, day.From, day.Since, want)
	}
	if got := tally.Totals(); got["delivered"] != 100+3*24*60 || got["dead"] != 7 {
		t.Errorf("totals are %v", got)
	}
}

func TestMinutesWithoutCountsAreZero(t *testing.T) {
	now := noon
	tally := stats.NewTally(&memory{}, "p", func() time.Time { return now })
	tally.Remember()
	tally.Add("delivered", 3)
	now = now.Add(2 * time.Minute)
	tally.Add("delivered", 1)
	s, _ := tally.Series(time.Minute, 4)
	if got := s.Counts["delivered"]; !slices.Equal(got, []int{0, 3, 0, 1}) {
		t.Errorf("minutes are %v", got)
	}
	// A day later the same elements of the ring are other minutes.
	now = now.Add(24 * time.Hour)
	if s, _ = tally.Series(time.Minute, 60); len(s.Counts) != 0 {
		t.Errorf("yesterday is today: %v", s.Counts)
	}
}

// TestAClockThatIsSetBackBreaksNoHistory: counts land in the minute that the clock says.
func TestAClockThatIsSetBackBreaksNoHistory(t *testing.T) {
	now := noon
	tally := stats.NewTally(&memory{}, "p", func() time.Time { return now })
	tally.Remember()
	tally.Add("delivered", 5)
	now = noon.Add(-10 * time.Minute)
	tally.Add("delivered", 2)
	if s, _ := tally.Series(time.Minute, 5); !slices.Equal(s.Counts["delivered"], []int{0, 0, 0, 0, 2}) {
		t.Errorf("ten minutes earlier: %v", s.Counts)
	}
	now = noon
	if s, _ := tally.Series(time.Minute, 11); s.Counts["delivered"][0] != 2 || s.Counts["delivered"][10] != 5 {
		t.Errorf("at noon: %v", s.Counts)
	}
}

func TestATallyKeepsNoHistoryUnlessItIsAsked(t *testing.T) {
	tally := stats.NewTally(&memory{}, "p", func() time.Time { return noon })
	tally.Add("delivered", 5)
	if s, ok := tally.Series(time.Minute, 60); ok {
		t.Errorf("there is a history: %+v", s)
	}
}
