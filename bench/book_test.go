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

// book is what the servers of a fleet took: each delivery that was answered 2xx.
type book struct {
	mu      sync.Mutex
	taken   map[delivery]int64 // when last, in Unix nanoseconds
	doubles []again
	// last is the latest activity of an ordering key at a host.
	last    map[orderedAt]int
	byHost  map[int]int
	faults  []string
	refused map[string]int // signatures that did not hold, by error
}

// orderedAt is a host and an ordering key, within which order holds. The ordering key is
// the caller's number.
type orderedAt struct {
	caller int
	host   int
}

func newBook() *book {
	return &book{taken: map[delivery]int64{}, byHost: map[int]int{}, last: map[orderedAt]int{}, refused: map[string]int{}}
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
	if caller < 0 {
		return
	}
	at := orderedAt{caller, host}
	if last, ok := b.last[at]; ok && d.activity < last && len(b.faults) < 20 {
		b.faults = append(b.faults, fmt.Sprintf("host %d took activity %d of ordering key %d after activity %d", host, d.activity, caller, last))
	}
	b.last[at] = max(b.last[at], d.activity)
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
