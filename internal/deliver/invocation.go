package deliver

import (
	"time"

	"fedpost/internal/deliver/admission"
	"fedpost/internal/engine/queue"
)

// invocation is what the messages of one call of Handle share.
type invocation struct {
	*Engine
	from queue.Name
	end  time.Time // zero: no deadline

	admission *admission.Scheduler // of the queue

	journal *journal
	feed    *feed
}

const (
	// reserve is kept back for writing records before the deadline of an invocation.
	reserve = 5 * time.Second
	// lease is how long a unit is claimed by an invocation without a deadline.
	lease = time.Minute
)

func (v *invocation) late() bool { return v.lateFor(v.Limits.Attempt) }

// late and lateFor report whether too little time is left to begin an attempt, or work that may
// take longest.
func (v *invocation) lateFor(longest time.Duration) bool {
	return !v.end.IsZero() && !v.Now().Before(v.end.Add(-longest-reserve))
}

// claimedUntil is the end of a claim: a unit is claimed as long as this invocation can run.
func (v *invocation) claimedUntil() time.Time {
	if v.end.IsZero() {
		return v.Now().Add(lease)
	}
	return v.end
}
