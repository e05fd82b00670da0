package cost

// Use is what something uses of the queues and the table.
type Use struct {
	SQS    float64 // requests of 64 KiB
	Writes float64 // units of 1 KB
	Reads  float64 // units of 4 KB
}

func (u Use) plus(v Use) Use { return Use{u.SQS + v.SQS, u.Writes + v.Writes, u.Reads + v.Reads} }

func (u Use) times(n float64) Use { return Use{u.SQS * n, u.Writes * n, u.Reads * n} }

// DownADay and DownForGood are what a recipient uses whose server is down, beside what
// accepting its activity does, until it is delivered or dead. Every delivery that was
// parked is released, claimed and recorded by itself. TestCostOfServersThatAreDown of
// package deadletter measures both.
var (
	DownADay    = Use{SQS: 2.4, Writes: 5.3, Reads: 7.6}
	DownForGood = Use{SQS: 3.4, Writes: 8.3, Reads: 10.8}
)
