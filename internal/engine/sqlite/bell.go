package sqlite

import (
	"sync"

	"fedpost/internal/engine/queue"
)

// bell wakes the receivers that wait for a queue.
type bell struct {
	mu    sync.Mutex
	rooms map[queue.Name]chan struct{}
}

func newBell() *bell { return &bell{rooms: make(map[queue.Name]chan struct{})} }

// listen returns a channel that is closed at the queue's next ring. Call listen
// before reading the queue: a message that arrives in between then still rings.
func (b *bell) listen(n queue.Name) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rooms[n] == nil {
		b.rooms[n] = make(chan struct{})
	}
	return b.rooms[n]
}

func (b *bell) ring(n queue.Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rooms[n] != nil {
		close(b.rooms[n])
		delete(b.rooms, n)
	}
}
