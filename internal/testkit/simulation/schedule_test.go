package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/testkit/faults"
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
