//go:build race

package sipher_test

import "testing"

// takesLong skips a test that takes minutes under the race detector and shows it
// nothing that shorter ones do not.
func takesLong(t *testing.T) {
	t.Helper()
	t.Skip("takes minutes under the race detector")
}
