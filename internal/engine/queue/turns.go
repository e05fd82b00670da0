package queue

import (
	"maps"
	"sync"
	"time"
)

// Turns orders the messages of a fair queue so that a group that sends much does not hold up
// groups that send little, as SQS does for a standard queue whose messages have groups. An engine
// hands out first what has been visible for longest. So each message is dated back by up to
// earliest, and by less the more its group has sent lately: messages of two busy groups alternate.
// That costs an engine no index and no write.
//
// Each process orders its own messages only. The zero value is ready for use.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
type Turns struct {
	mu    sync.Mutex
	last  map[string]time.Duration // the turn of a group's last message
	swept time.Duration
}

const (
	// earliest is how far before its sending a message may stand.
	earliest = 10 * time.Minute
	// turn is how far apart the messages of a group stand, while they stand before their
	// sending: the first 1,000.
	turn = earliest / 1000
	// mostGroups bounds the groups that are remembered. Others stand first.
	mostGroups = 10_000
)

// Take returns how long before now a message stands. A message without a group is alone in
// its group, as on SQS. The times may be of any clock.
func (t *Turns) Take(group string, now time.Duration) time.Duration {
	if group == "" {
		return earliest
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.last[group]
	at := now - earliest
	if known {
		at = min(max(at, last+turn), now)
	}
	if !known && len(t.last) >= mostGroups {
		if now-t.swept < turn {
			return now - at
		}
		t.swept = now
		maps.DeleteFunc(t.last, func(_ string, last time.Duration) bool { return last+turn <= at })
		if len(t.last) >= mostGroups {
			return now - at
		}
	}
	if t.last == nil {
		t.last = map[string]time.Duration{}
	}
	t.last[group] = at
	return now - at
}

// Of returns the turns of messages that are sent together, in whole milliseconds: a message
// with a delay, or on a queue that is not fair (nil), has none.
func (t *Turns) Of(ms []Message, now time.Time) []int64 {
	all := make([]int64, len(ms))
	for i, m := range ms {
		if t != nil && m.Delay == 0 {
			all[i] = t.Take(m.OrderingKey, time.Duration(now.UnixNano())).Milliseconds()
		}
	}
	return all
}
