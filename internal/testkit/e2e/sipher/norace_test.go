//go:build !race

package sipher_test

import "testing"

// takesLong lets a long test go beside others.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
}
