package client

import (
	"context"
	"net/http"
	"sync"
	"time"

	"fedpost/internal/api/contract"
)

// Lately reads statistics for a page or a scrape that comes again every few seconds. What
// is dear to count, the deliveries that wait for servers, it asks for once in Every at
// most, and repeats in between.
type Lately struct {
	Every time.Duration
	Now   func() time.Time

	mu      sync.Mutex
	at      time.Time
	waiting *contract.WaitingInAll
}

// Stats returns GET /v1/stats, with Waiting.
func (l *Lately) Stats(ctx context.Context, c *Client) (s Stats, err error) {
	l.mu.Lock()
	known, now := l.waiting, l.Now()
	if age := now.Sub(l.at); age < 0 || age >= l.Every {
		known = nil
	}
	l.mu.Unlock()
	path := "/v1/stats"
	if known == nil {
		path += "?waiting=true"
	}
	if err := c.Do(ctx, http.MethodGet, path, nil, &s); err != nil {
		return Stats{}, err
	}
	if known != nil {
		s.Waiting = known
		return s, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.waiting = now, s.Waiting
	return s, nil
}
