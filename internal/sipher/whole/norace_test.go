//go:build !race

package whole_test

import "testing"

func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
