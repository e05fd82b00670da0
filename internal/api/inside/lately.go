package inside

import (
	"context"
	"sync"
	"time"

	"fedpost/client"
)

// Lately reads statistics for a page or a scrape that repeats every few seconds. It requests the
// expensive count of waiting deliveries once in Every at most.
type Lately struct {
	Every time.Duration
	Now   func() time.Time

	mu      sync.Mutex
	at      time.Time
	waiting *client.WaitingInAll
}

// Stats returns GET /v1/stats, with Waiting.
func (l *Lately) Stats(ctx context.Context, c *client.Client) (s client.Stats, err error) {
	l.mu.Lock()
	known, now := l.waiting, l.Now()
	if age := now.Sub(l.at); age < 0 || age >= l.Every {
		known = nil
	}
	l.mu.Unlock()
	if s, err = c.Stats(ctx, client.StatsQuery{Waiting: known == nil}); err != nil {
		return client.Stats{}, err
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
