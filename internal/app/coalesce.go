package app

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
)

// rememberDelivered is how long fedpost remembers the last delivery to an inbox. After that an
// unchanged update is sent once more.
const rememberDelivered = 30 * 24 * time.Hour

// coalesce skips deliveries that a newer activity supersedes, for requests that ask for it.
func (p Ports) coalesce(policy retry.Policy, rules circuit.Rules) *coalesce.Filter {
	return &coalesce.Filter{Store: p.store(), Now: p.now(), Pending: rules.Longest(policy.GiveUp), Remember: rememberDelivered}
}
