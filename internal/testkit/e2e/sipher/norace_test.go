//go:build !race

package sipher_test

import "testing"

func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
