package app

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
)

// rememberDelivered is how long fedpost remembers what was delivered last to an
// inbox. After that time an unchanged update is sent once more.
const rememberDelivered = 30 * 24 * time.Hour

// coalesce drops deliveries that a newer activity makes needless, for requests
// that ask for coalescing.
func (p Ports) coalesce(policy retry.Policy) *coalesce.Filter {
	return &coalesce.Filter{Store: p.store(), Now: p.now(), Pending: policy.GiveUp, Remember: rememberDelivered}
}
