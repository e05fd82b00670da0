package bench

import (
	"fmt"
	"sync"
	"time"
)

// delivery is one activity to one user.
type delivery struct{ activity, user int }

// again is a delivery that a server accepted twice.
type again struct {
	delivery
	first, second time.Time
}

// disorder is a delivery that a host took after a later one of its ordering key.
type disorder struct {
	delivery
	host, caller, after int
	at                  time.Time
}

func (d disorder) String() string {
	return fmt.Sprintf("host %d took activity %d of ordering key %d for user %d after activity %d, at %s",
		d.host, d.activity, d.caller, d.user, d.after, d.at.UTC().Format(time.RFC3339Nano))
}

// book is what the servers of a fleet took: each delivery that was answered 2xx.
type book struct {
	mu      sync.Mutex
	taken   map[delivery]int64 // when last, in Unix nanoseconds
	doubles []again
	// last is the latest activity of an ordering key at a host, of those to inboxes that are in its
	// line. atInbox is the latest at an inbox.
	last, atInbox map[orderedAt]int
	// failures are those of a user's inbox since it last took something, left the inboxes that
	// failed so often that their circuit may have opened, so that they have left their host's line.
	failures map[int]int
	left     map[int]bool

	byHost  map[int]int
	faults  []disorder
	refused map[string]int // signatures that did not hold, by error
}

// orderedAt is an ordering key, and a host or the user of an inbox, within which order holds. The
// ordering key is the caller's number.
type orderedAt struct {
	caller int
	at     int
}

// leavesAfter failures in a row, at least, an inbox's circuit opens.
const leavesAfter = 5

func newBook() *book {
	return &book{taken: map[delivery]int64{}, byHost: map[int]int{}, last: map[orderedAt]int{}, atInbox: map[orderedAt]int{}, failures: map[int]int{}, left: map[int]bool{}, refused: map[string]int{}}
}

// take records that a host took a delivery. caller is that of an ordered activity,
// else negative: what a caller sends in order has growing numbers.
func (b *book) take(d delivery, host, caller int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, twice := b.taken[d]
	b.taken[d] = now.UnixNano()
	if twice {
		b.doubles = append(b.doubles, again{d, time.Unix(0, before), now})
		return
	}
	b.byHost[host]++
	b.failures[d.user] = 0
	if caller < 0 {
		return
	}
	b.inOrder(b.atInbox, orderedAt{caller, d.user}, d, host, now)
	if !b.left[d.user] {
		b.inOrder(b.last, orderedAt{caller, host}, d, host, now)
	}
}

func (b *book) inOrder(latest map[orderedAt]int, at orderedAt, d delivery, host int, now time.Time) {
	if last := latest[at]; d.activity < last && len(b.faults) < 1000 {
		b.faults = append(b.faults, disorder{d, host, at.caller, last, now})
	}
	latest[at] = max(latest[at], d.activity)
}

// fail records that a delivery was not taken. An inbox that throttles leaves its host's order at once.
func (b *book) fail(d delivery, throttled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[d.user]++
	b.left[d.user] = b.left[d.user] || throttled || b.failures[d.user] >= leavesAfter
}

func (b *book) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[err.Error()]++
}

// total is how many deliveries were taken, each once.
func (b *book) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.taken)
}

func (b *book) has(d delivery) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.taken[d]
	return ok
}
