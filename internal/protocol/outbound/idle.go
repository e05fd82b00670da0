package outbound

import (
	"net/http"
	"sync"
	"time"
)

// idle drops kept connections that cannot be alive any more. The transport has
// a timer for that, but a Lambda is frozen between invocations and its timers
// with it: after a night it would send to connections that nobody knows any
// more, and blame the hosts.
type idle struct {
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// dropStale closes the kept connections if nothing was sent for longer than
// they are kept. Requests wait for it, so that none takes one of them.
func (i *idle) dropStale(t http.RoundTripper) {
	// The monotonic clock stands still while the process is frozen.
	now := i.now().Round(0)
	i.mu.Lock()
	defer i.mu.Unlock()
	if c, ok := t.(interface{ CloseIdleConnections() }); ok && now.Sub(i.last) > keepIdle {
		c.CloseIdleConnections()
	}
	i.last = now
}
