package app

import (
	"strings"
	"testing"
	"time"
)

// TestTimeGoesOnWhileAProcessIsFrozen: two times with the monotonic clock in them compare by
// that clock, which stops meanwhile.
func TestTimeGoesOnWhileAProcessIsFrozen(t *testing.T) {
	for name, clock := range map[string]func() time.Time{"the clock of Lambdas": Wall, "the default": Ports{}.now()} {
		if now := clock(); strings.Contains(now.String(), " m=") {
			t.Errorf("%s has the monotonic clock in it: %s", name, now)
		}
	}
}
