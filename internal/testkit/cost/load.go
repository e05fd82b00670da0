package cost

import (
	"math"
	"time"

	"fedpost/internal/ledger"
)

// Load is what an installation does on each day of a month of 30 days. Tests compare the model of
// what it uses with counts: TestTheModelOfCosts of functions (one activity),
// TestCostWithSlowAnswers of package deliver and TestCostOfServersThatAreDown of package
// deadletter.
type Load struct {
	// Activities a day, each to Recipients on as many hosts.
	Activities, Recipients int
	// Slow is the share of recipients whose hosts answer after up to SlowAnswer, Dead
	// that of recipients whose hosts are down for good.
	Slow, Dead float64
	// Memory of the deliver function in MB.
	Memory int
	// Body is the size of an activity in bytes.
	Body int
	// EachDelivery: LogLevel is INFO, so each delivery and request is a line of the log.
	EachDelivery bool
}

// What was measured for the model.
const (
	// SlowAnswer and FastAnswer are how long the slowest of many hosts takes.
	SlowAnswer = 4700 * time.Millisecond
	FastAnswer = 500 * time.Millisecond
	// CoreNew is a delivery's time of an x86 core on a new TLS connection (make
	// measure: 1.16 s for 500), CoreAccept that of an API call, CoreAcceptEach that of
	// each recipient in it (make measure: 1.3 ms for one, 4.5 ms for 500).
	CoreNew        = 2320 * time.Microsecond
	CoreAccept     = 1300 * time.Microsecond
	CoreAcceptEach = 6 * time.Microsecond
	// EgressNew is what a delivery on a new TLS connection sends beside its body, in
	// bytes, with TLS and without TCP and IP.
	EgressNew = 2300
	// Calls is how long the calls of an invocation to SQS and DynamoDB take: a guess,
	// as nothing here runs on AWS.
	Calls = 200 * time.Millisecond
	// LogCounts, LogDelivery, LogFailure and LogRequest are lines of the log in bytes,
	// with the 26 bytes that CloudWatch adds to each. LogLambda are Lambda's START and
	// REPORT.
	LogCounts, LogDelivery, LogFailure, LogRequest, LogLambda = 390, 370, 430, 330, 720
	// CheckReads are the read units of a run of the health check that finds nothing
	// due.
	CheckReads = 6.5
)

// Work is what an activity uses.
type Work struct {
	Use
	Calls       float64 // of the API
	Enqueue     float64 // dollars of Lambda
	Deliver     float64 // dollars of Lambda
	Invocations float64 // of the deliver function
	Egress, Log float64 // bytes
}

// chunks returns how many messages an activity to n recipients is delivered in.
func chunks(n int) float64 { return math.Ceil(float64(n) / ledger.ChunkSize) }

// PerActivity returns what one activity of the load uses.
func (l Load) PerActivity() Work {
	alive := float64(l.Recipients) * (1 - l.Dead)
	c := chunks(l.Recipients)
	w := Work{Calls: 1, Egress: alive * float64(EgressNew+l.Body)}
	// One record for the activity and two entries in lists, by time and by its own id;
	// then for each chunk its list, a claim and outcomes; for each host its state.
	w.Use = Use{SQS: 3, Writes: listed + 3, Reads: 2 + alive}
	w.Invocations = 1
	batches := []float64{alive}
	if c > 1 {
		full := math.Ceil(c / 10) // ten messages each
		w.Use = Use{SQS: 3 + 2*full + c, Writes: listed + 1 + 3*c, Reads: 3*c + alive}
		w.Invocations = 1 + full
		batches = batches[:0]
		for left := alive; left > 0; left -= 10 * ledger.ChunkSize {
			batches = append(batches, math.Min(left, 10*ledger.ChunkSize))
		}
		w.Deliver = Lambda(l.Memory, Calls) // the fan-out
	}
	for _, n := range batches {
		took := l.invocation(n)
		w.Deliver += Lambda(l.Memory, took)
		w.Writes += math.Ceil(took.Seconds()) - 1 // the journal, once a second
	}
	w.Use = w.plus(DownForGood.times(float64(l.Recipients) * l.Dead))
	enqueueShare := float64(enqueueMemory) / MemoryPerCore
	accept := CoreAccept + time.Duration(l.Recipients)*CoreAcceptEach
	w.Enqueue = Lambda(enqueueMemory, time.Duration(float64(accept)/enqueueShare)+20*time.Millisecond)
	w.Log = float64(len(batches))*LogCounts + (1+w.Invocations)*LogLambda + 0.1*float64(l.Recipients)*l.Dead*LogFailure
	if l.EachDelivery {
		w.Log += alive*LogDelivery + LogRequest
	}
	return w
}

const enqueueMemory, checkMemory = 512, 256

// listed is how many entries in lists an activity has.
const listed = 2

// invocation returns how long an invocation with n deliveries takes: its computing, or
// waiting for its slowest host.
func (l Load) invocation(n float64) time.Duration {
	share := math.Min(1, float64(l.Memory)/MemoryPerCore)
	computes := time.Duration(n * float64(CoreNew) / share)
	slow := 1 - math.Pow(1-l.Slow, n) // the chance that one is
	waits := FastAnswer + time.Duration(slow*float64(SlowAnswer-FastAnswer))
	return max(computes, waits) + Calls
}
