// Package long is the one switch between the tests that run after each change and the ones
// that search longer.
//
// `go test ./...` has to end before a developer turns to something else, so it runs of each
// slow test the part that finds most defects per second. `make test-long` and CI set
// FEDPOST_LONG=1 and run all of it. Every test that is slow by nature asks this package, and
// nothing else: not testing.Short, no flag, no variable of its own.
//
// A new slow test picks its size where it is set up:
//
//	func TestManyRestarts(t *testing.T) {
//		for range long.Pick(3, 100) {
//			…
//		}
//	}
//
// A test that shows nothing in a second or two runs only with the switch on:
//
//	func TestAMonthOfOutages(t *testing.T) {
//		long.Only(t, "a month of simulated time on SQLite")
//		…
//	}
package long

import (
	"os"
	"testing"
)

// Variable is the environment variable that turns the switch on; any value but the empty one
// and 0 does.
const Variable = "FEDPOST_LONG"

// On reports whether slow tests run in full.
func On() bool {
	v := os.Getenv(Variable)
	return v != "" && v != "0"
}

// Only skips a test unless the switch is on. The reason says what takes long.
func Only(t testing.TB, reason string) {
	t.Helper()
	if !On() {
		t.Skipf("long: %s; set %s=1 to run it", reason, Variable)
	}
}

// Pick returns the size of a test: fast by default, whole with the switch on.
func Pick[T any](fast, whole T) T {
	if On() {
		return whole
	}
	return fast
}

// NotUnderRace skips a test of seconds under the race detector, which would see nothing in it
// that shorter tests do not show, and makes it ten times as long: one that starts no goroutine,
// or calls the code once at a time.
func NotUnderRace(t testing.TB) {
	t.Helper()
	if UnderRace {
		t.Skip("long, and of no use to the race detector")
	}
}
