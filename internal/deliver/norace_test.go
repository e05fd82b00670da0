//go:build !race

package deliver_test

import "testing"

// sequential lets a long test in which nothing runs at a time go beside others.
func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
}
