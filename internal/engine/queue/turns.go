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
// That costs an engine no index, and a write only for a message that becomes visible after its
// sending and is not received within a second: such a retry takes a turn then.
//
// Each process orders its own messages only. The zero value is ready for use.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
type Turns struct {
	mu    sync.Mutex
	last  map[string]time.Duration // the turn of a group's last message
	swept time.Duration
	due   time.Time // until when messages that became visible again have taken their turns
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

// Take returns how long before now a message stands. Messages without a group are a group, or a
// flood of them would stand before all others. The times may be of any clock.
func (t *Turns) Take(group string, now time.Duration) time.Duration {
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
			all[i] = t.take(m.Group(), now)
		}
	}
	return all
}

// Group is the Digest of m's group, empty if m has none.
func (m Message) Group() string {
	if m.OrderingKey == "" {
		return ""
	}
	return Digest(m.OrderingKey)
}

func (t *Turns) take(group string, now time.Time) int64 {
	return t.Take(group, time.Duration(now.UnixNano())).Milliseconds()
}

const (
	// overdue is how long a message that became visible after its sending waits to be received
	// until it takes the turn of its group: only on a queue that gets more than is received.
	overdue = time.Second
	// MostDue is how many of them take their turns at once. The others keep their place.
	MostDue = 1000
)

// Due returns how long ago those messages became visible that take their turns now: retries, and
// messages that had a delay. It returns false if others have, less than a second ago.
func (t *Turns) Due(now time.Time) (from, to time.Duration, ok bool) {
	if t == nil {
		return 0, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	until := now.Add(-overdue)
	ago := until.Sub(t.due)
	if ago < overdue {
		return 0, 0, false
	}
	t.due = until
	return overdue + min(ago, earliest), overdue, true
}

// Again returns how long before now messages of groups stand that take their turns, in
// milliseconds. A group is a Message.Group.
func (t *Turns) Again(groups []string, now time.Time) []int64 {
	all := make([]int64, len(groups))
	for i, g := range groups {
		all[i] = t.take(g, now)
	}
	return all
}
