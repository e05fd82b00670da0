package cost

import (
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

// Prices in dollars per million, us-east-1, on demand, as of 2026.
// https://aws.amazon.com/sqs/pricing/ https://aws.amazon.com/dynamodb/pricing/on-demand/
const (
	SQSRequest     = 0.40 // of 64 KiB
	SQSFIFORequest = 0.50 // the same on a FIFO queue
	WriteUnit      = 0.625
	ReadUnit       = 0.125
)

// Prices of Lambda on arm64, in dollars, and how much memory brings a whole core.
// https://aws.amazon.com/lambda/pricing/
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
const (
	GBSecond      = 0.0000133334
	Invocation    = 0.20e-6
	MemoryPerCore = 1769 // MB
)

// Lambda returns what an invocation of a function with memory MB costs, in dollars.
func Lambda(memory int, took time.Duration) float64 {
	return float64(memory)/1024*took.Seconds()*GBSecond + Invocation
}

// Price is what usage costs in dollars per million of something.
type Price struct{ SQS, Writes, Reads float64 }

// PriceOf returns the price of a million things, if n things used s on standard queues.
func PriceOf(s Snapshot, n int) Price { return PriceOn(queue.Standard, s, n) }

// PriceOn is PriceOf on queues of a type.
func PriceOn(typ queue.Type, s Snapshot, n int) Price {
	request := SQSRequest
	if typ == queue.FIFO {
		request = SQSFIFORequest
	}
	sqs, dynamodb := s.Service("SQS"), s.Service("DynamoDB")
	per := 1 / float64(n)
	return Price{
		SQS: float64(sqs.PayloadUnits) * per * request, Writes: dynamodb.WriteUnits * per * WriteUnit, Reads: dynamodb.ReadUnits * per * ReadUnit,
	}
}

// Total returns the sum of the three prices.
func (p Price) Total() float64 { return p.SQS + p.Writes + p.Reads }

func (p Price) String() string {
	return fmt.Sprintf("$%.3f per million (SQS $%.3f, writes $%.3f, reads $%.3f)", p.Total(), p.SQS, p.Writes, p.Reads)
}
