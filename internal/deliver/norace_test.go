//go:build !race

package deliver_test

import "testing"

func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
