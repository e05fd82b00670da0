package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/memory"
)

// TestAScheduledRunThatFailsIsMadeAgainInTheNextMinute, as in production. The simulated schedule
// took it for one that had nothing to do and doubled its pause, up to an hour: deliveries waited
// for hours as soon as a few runs failed, and their next attempt was past.
func TestAScheduledRunThatFailsIsMadeAgainInTheNextMinute(t *testing.T) {
	inItsOrder(t)
	down := Server{Host: "down.example", Phases: []Phase{
		{0, Answer{Kind: Refuses}}, {3 * minute, Answer{Kind: Accepts}},
	}}
	post := Post{N: 1, Recipients: []Inbox{{down.Host, "/inbox"}}, Text: "hello"}
	sc := Scenario{
		Seed: 1, Settings: map[string]string{},
		Processes: []Process{{Name: "up", Whole: true, Workers: 1, Schedule: true}},
		Servers:   []Server{down}, Acts: []Act{{At: minute, Post: &post}},
		Faults: Faults{Until: 2 * hour, At: map[string]Trouble{}},
	}
	// The first run makes five queries until the server has passed its check. Then a delivery has
	// to become the trial, and the due time of the trial moves only when one is found. A run makes
	// at least two queries, so at most 60 runs fail: an hour of them.
	for n := range 120 {
		sc.Faults.At[fmt.Sprintf("up/schedule table.Query %d", 6+n)] = Trouble{Kind: faults.FailBefore}
	}
	r := Run(t, sc)
	if r.Violation != nil {
		t.Errorf("%s after %s: %s", r.Violation.Kind, r.Violation.At.Round(time.Second), r.Violation.Text)
	}
	accepted := slices.IndexFunc(r.Lines, func(l string) bool { return strings.Contains(l, ": accepts") })
	if accepted < 0 || strings.HasPrefix(r.Lines[accepted], " 0d 00:0") {
		t.Errorf("the trial was not held up by failing calls: %s", strings.Join(r.Lines, "\n"))
	}
}

// TestAScheduledRunComesForWhatBecomesDueBesideOldWork: heads of a busy ordered queue stayed due, so
// runs became rarer, and a check of a Sipher server that became due meanwhile was not made for 8
// minutes.
func TestAScheduledRunComesForWhatBecomesDueBesideOldWork(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 10, 0, 0, time.UTC)
	p := &process{sim: &sim{engine: memory.New(time.Now, nil)}, skew: 3 * time.Second}
	due := func(name string, at time.Time) {
		it := table.Item{Key: table.Key{PK: name, SK: name}, Due: table.Due{Shard: name, At: at.Add(p.skew)}}
		if err := p.engine.Table().Put(t.Context(), it, table.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := p.nextRun(began, 8*minute).Sub(began); got != want {
			t.Errorf("%s: the next run comes after %s, want %s", what, got, want)
		}
	}
	expect("nothing is due", 6*hour)
	due("head", began.Add(-3*minute))
	expect("old work is due", 8*minute)
	due("check", began.Add(3*minute+time.Second))
	expect("more becomes due", 4*minute)
	due("step", began.Add(time.Second))
	expect("more becomes due in a second", minute)
}
