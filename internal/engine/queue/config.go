package queue

import (
	"cmp"
	"time"
)

// Config holds the settings of a queue of an engine that keeps its messages itself.
type Config struct {
	// Visibility is how long a received message stays hidden. 0: 30 s, as on SQS.
	Visibility time.Duration
	// MaxReceives is how often a message is received before the next receive
	// moves it to the queue's dead letters. 0: never.
	MaxReceives int
	// Retention is how long a message is kept. 0: 14 days, the most SQS allows.
	Retention time.Duration
}

// Configs returns the settings of all queues. A queue that is not given has a MaxReceives of
// 10. A queue of dead letters has none, because there is nowhere for its messages to go.
func Configs(given map[Name]Config) map[Name]Config {
	const visibility, receives, retention = 30 * time.Second, 10, 14 * 24 * time.Hour
	all := make(map[Name]Config, len(Names))
	for _, n := range Names {
		c, ok := given[n]
		if !ok {
			c.MaxReceives = receives
		}
		c.Visibility = cmp.Or(c.Visibility, visibility)
		c.Retention = cmp.Or(c.Retention, retention)
		if n == n.DeadLetter() {
			c.MaxReceives = 0
		}
		all[n] = c
	}
	return all
}
