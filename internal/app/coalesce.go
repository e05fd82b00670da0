package app

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
)

// rememberDelivered is how long fedpost remembers what an inbox got last. After that, an
// update without news is sent once more.
const rememberDelivered = 30 * 24 * time.Hour

// coalesce drops deliveries that a newer activity has made needless, if the caller has
// asked for coalescing.
func (p Ports) coalesce(policy retry.Policy) *coalesce.Filter {
	return &coalesce.Filter{Store: p.store(), Now: p.now(), Pending: policy.GiveUp, Remember: rememberDelivered}
}
