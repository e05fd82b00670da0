// Package cost counts the requests and capacity that AWS would bill, in two ways that
// have to agree.
//
// An Estimate counts the calls of the queue and table ports by AWS's rules, whatever
// engine is behind the ports. It needs no server, so every test run can assert a budget:
// the rules by which SQS and DynamoDB bill are few, and depend on sizes that the ports
// know. A Meter counts the requests of AWS clients, those of the SDK's own retries
// included, and the capacity that DynamoDB reports for them.
//
// From these counts a model computes what a month of any load costs (Load, Stack.Bill), and
// what large loads need of everything that has a limit (Scenario). docs/costs.md and
// docs/scale.md have its numbers, and tests hold the model against counts.
//
// A new test of a budget counts around what it is about:
//
//	e := cost.NewEstimate()
//	table := cost.EstimateTable(e, engine.Table())
//	normal := cost.EstimateQueue(e, engine.Queue(queue.Normal))
//	before := e.Snapshot()
//	…
//	used := e.Snapshot().Since(before)
//	if got := used.Service("DynamoDB").WriteUnits; got > 3 {
//		t.Errorf("%.1f write units, at most 3:\n%s", got, used.Per(1, "call"))
//	}
//
// Scenarios of e2e do the same with World.Used, on AWS with what DynamoDB reports.
package cost

import (
	"sync"
)

// Estimate counts the calls of all ports that are wrapped with it. It is safe for
// concurrent use.
type Estimate struct {
	mu    sync.Mutex
	usage Snapshot
}

// NewEstimate returns an Estimate with all counts at zero.
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

// unitsBegun returns how many units of a size are billed for a number of bytes. Every
// unit that is begun counts, and the least is one.
func unitsBegun(bytes, size int) int { return max(1, (bytes+size-1)/size) }
