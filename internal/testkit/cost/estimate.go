// Package cost counts what the calls of the queue and table ports would
// cost on AWS, whatever engine is behind them.
//
// It is how a budget can be asserted in every test run, without a server that
// meters: the rules by which SQS and DynamoDB bill are few and depend on sizes
// that the ports know. What DynamoDB itself says it used (package awscalls)
// confirms them where there is such a server.
package cost

import (
	"sync"
)

// Counter counts the calls of all ports that are wrapped with it. It is safe for
// concurrent use.
type Estimate struct {
	mu    sync.Mutex
	usage Snapshot
}

// NewCounter returns a counter that stands at zero.
func NewEstimate() *Estimate { return &Estimate{usage: Snapshot{}} }

// Snapshot returns what was used so far, by the operations that the AWS engine
// would have called.
func (c *Estimate) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usage.Since(nil)
}

func (c *Estimate) add(service, operation string, u Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op := Op{Service: service, Operation: operation}
	sum := c.usage[op]
	sum.Requests += u.Requests
	sum.Failures += u.Failures
	sum.PayloadUnits += u.PayloadUnits
	sum.ReadUnits += u.ReadUnits
	sum.WriteUnits += u.WriteUnits
	c.usage[op] = sum
}

// units is how many units of a size so many bytes begin: at least one.
func unitsBegun(bytes, size int) int { return max(1, (bytes+size-1)/size) }
