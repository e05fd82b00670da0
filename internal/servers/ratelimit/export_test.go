package ratelimit

// Hosts returns how many hosts a stash holds slots for.
func (s *Stash) Hosts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}
