package deliver

import "fedpost/internal/engine/queue"

// rooms bound the attempts that a process has under way, queue by queue. Nil is
// no bound.
type rooms map[queue.Name]chan struct{}

func newRooms(size int) rooms {
	if size <= 0 {
		return nil
	}
	r := make(rooms, len(queue.Names))
	for _, n := range queue.Names {
		r[n] = make(chan struct{}, size)
	}
	return r
}

// enter waits for a place and returns how to leave it.
func (r rooms) enter(n queue.Name) (leave func()) {
	if r == nil {
		return func() {}
	}
	r[n] <- struct{}{}
	return func() { <-r[n] }
}
