package app

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
)

// rememberDelivered is how long it is known what an inbox got last. After that
// an update that brings no news is sent once more.
const rememberDelivered = 30 * 24 * time.Hour

// redundancy drops what a newer activity has made needless, where the caller
// asked for that.
func (p Ports) coalesce(policy retry.Policy) *coalesce.Filter {
	return &coalesce.Filter{Store: p.store(), Now: p.now(), Pending: policy.GiveUp, Remember: rememberDelivered}
}
