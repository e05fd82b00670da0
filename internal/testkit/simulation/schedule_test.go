package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/testkit/faults"
)

// TestAScheduledRunThatFailsIsMadeAgainInTheNextMinute as it is in production. The simulated
// schedule took it for one that had nothing to do and doubled its pause, up to an hour: what
// was parked waited for hours as soon as a few runs failed, and its next attempt was past.
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
	// The first run makes five queries until the server has passed its check. Then a delivery is
	// to be the trial, and nothing moves the time at which the trial is due but finding one. A
	// run makes two queries at least, so that 60 runs fail at most: an hour of them.
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
