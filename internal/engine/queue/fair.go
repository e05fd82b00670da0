package queue

import (
	"maps"
	"sync"
	"time"
)

// FairOrder orders the messages of a fair queue so that a group that sends much does not hold up
// groups that send little, as SQS does for a standard queue whose messages have groups. An engine
// hands out first what has been visible for longest. So each message is dated back by up to
// earliest, and by less the more its group has sent lately: messages of two busy groups alternate.
// That costs an engine no index, and a write only for a message that becomes visible after its
// sending and is not received within a second: such a retry is dated back then.
//
// Each process orders its own messages only. The zero value is ready for use.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
type FairOrder struct {
	mu    sync.Mutex
	last  map[string]time.Duration // where a group's last message stands
	swept time.Duration
	due   time.Time // until when messages that became visible again have been dated back
}

const (
	// earliest is how far before its sending a message may stand.
	earliest = 10 * time.Minute
	// step is how far apart the messages of a group stand, while they stand before their
	// sending: the first 1,000.
	step = earliest / 1000
	// mostGroups bounds the groups that are remembered. Others are first.
	mostGroups = 10_000
)

// Offset returns how long before now a message stands. Messages without a group are a group, or a
// flood of them would stand before all others. The times may be of any clock.
func (f *FairOrder) Offset(group string, now time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.last[group]
	at := now - earliest
	if known {
		at = min(max(at, last+step), now)
	}
	if !known && len(f.last) >= mostGroups {
		if now-f.swept < step {
			return now - at
		}
		f.swept = now
		maps.DeleteFunc(f.last, func(_ string, last time.Duration) bool { return last+step <= at })
		if len(f.last) >= mostGroups {
			return now - at
		}
	}
	if f.last == nil {
		f.last = map[string]time.Duration{}
	}
	f.last[group] = at
	return now - at
}

// Offsets returns how long before now messages that are sent together stand, in milliseconds: 0 for
// a message with a delay, or on a queue that is not fair (nil).
func (f *FairOrder) Offsets(ms []Message, now time.Time) []int64 {
	all := make([]int64, len(ms))
	for i, m := range ms {
		if f != nil && m.Delay == 0 {
			all[i] = f.offset(m.Group(), now)
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

func (f *FairOrder) offset(group string, now time.Time) int64 {
	return f.Offset(group, time.Duration(now.UnixNano())).Milliseconds()
}

const (
	// overdue is how long a message that became visible again or after a delay waits to be received
	// until it is dated back: only on a queue that gets more than is received.
	overdue = time.Second
	// MostDue is how many of them are dated back at once. The others stay where they are.
	MostDue = 1000
)

// Due returns how long ago the messages became visible that are to be dated back now: retries, and
// messages that had a delay. ok is false if others were dated back less than a second ago.
func (f *FairOrder) Due(now time.Time) (from, to time.Duration, ok bool) {
	if f == nil {
		return 0, 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	until := now.Add(-overdue)
	ago := until.Sub(f.due)
	if ago < overdue {
		return 0, 0, false
	}
	f.due = until
	return overdue + min(ago, earliest), overdue, true
}

// OffsetsAgain returns how long before now messages of groups stand that Due has found, in
// milliseconds. A group is a Message.Group.
func (f *FairOrder) OffsetsAgain(groups []string, now time.Time) []int64 {
	all := make([]int64, len(groups))
	for i, g := range groups {
		all[i] = f.offset(g, now)
	}
	return all
}
