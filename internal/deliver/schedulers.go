package deliver

import (
	"sync"
	"time"

	"fedpost/internal/deliver/admission"
	"fedpost/internal/engine/queue"
)

type schedulers struct {
	bounds admission.Bounds
	now    func() time.Time

	mu sync.Mutex
	of map[queue.Name]*admission.Scheduler
}

func (s *schedulers) scheduler(q queue.Name) *admission.Scheduler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.of[q]; !ok {
		s.of[q] = admission.New(s.bounds, s.now)
	}
	return s.of[q]
}
