package app

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
)

// rememberDelivered is how long fedpost remembers what was delivered last to an
// inbox. After that time an unchanged update is sent once more.
const rememberDelivered = 30 * 24 * time.Hour

// coalesce drops deliveries that a newer activity makes needless, for requests
// that ask for coalescing.
func (p Ports) coalesce(policy retry.Policy, rules circuit.Rules) *coalesce.Filter {
	return &coalesce.Filter{Store: p.store(), Now: p.now(), Pending: rules.Longest(policy.GiveUp), Remember: rememberDelivered}
}
