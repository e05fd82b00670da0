package peers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Strangers choose the servers that they name and the addresses from which they call.
func TestWhatIsRememberedOfStrangersIsBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	d := &Discovery{Prober: &Prober{Now: clock}, failures: map[string]failure{}}
	c := newCallbacks(Exchange{}, clock)
	l := NewRateLimit(60, 1, clock)
	refused := 0
	for n := range maxCallers + maxCallers/2 {
		name := fmt.Sprintf("https://s%d.example", n)
		d.remember(name, errors.New("no answer"))
		if n < 2*maxTargets {
			c.target(name)
		}
		if l.Allow(name) > 0 {
			refused++
		}
	}
	if len(d.failures) > maxFailures || len(c.targets) > maxTargets || len(l.free) > maxCallers || refused == 0 {
		t.Errorf("%d failures (at most %d), %d targets (at most %d), %d callers (at most %d), %d of whom were refused",
			len(d.failures), maxFailures, len(c.targets), maxTargets, len(l.free), maxCallers, refused)
	}
	now = now.Add(time.Hour)
	d.remember("https://later.example", context.DeadlineExceeded)
	if l.Allow("later") > 0 || len(l.free) != 1 {
		t.Errorf("an hour later %d callers are known", len(l.free))
	}
	if d.recent("https://later.example") == nil || len(d.failures) != 1 {
		t.Errorf("an hour later %d failures are known", len(d.failures))
	}
}
