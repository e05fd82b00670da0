package e2e

import (
	"context"
	"testing"
	"time"
)

// Await calls look until look reports done. If that takes longer than within, Await
// fails the test and prints the last seen.
func Await(t testing.TB, within time.Duration, what string, look func() (done bool, seen string)) {
	t.Helper()
	// Looking costs what is looked at: often at first, more seldom later, and
	// never for most of the time; but often enough that one slow look does not use up
	// what is left. A look on a busy machine takes long without costing much.
	const often, seldom, share, lookShare = 20 * time.Millisecond, 250 * time.Millisecond, 20, 5
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	start, pause := time.Now(), time.NewTimer(0)
	defer pause.Stop()
	seen := "nothing"
	for {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s; last seen: %s", what, within, seen)
		case <-pause.C:
		}
		var done bool
		before := time.Now()
		if done, seen = look(); done {
			return
		}
		pause.Reset(max(min(seldom, max(often, time.Since(start)/share)), min(within/share, lookShare*time.Since(before))))
	}
}
