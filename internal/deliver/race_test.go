//go:build race

package deliver_test

import (
	"flag"
	"testing"
)

// Fewer random runs, as each takes ten times as long: a race that there is shows
// in any of them.
func init() {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
}

// sequential skips a long test in which nothing runs at a time that the race
// detector, which makes it ten times as long, could see.
func sequential(t *testing.T) {
	t.Helper()
	t.Skip("long, and of no use to the race detector")
}
