// Package topology is the one place for the numbers on which the infrastructure
// and the code must agree: how long a message stays hidden, how often it is
// received, how long the functions may run.
//
// The numbers depend on each other. With a visibility timeout shorter than its
// function's run, a message is delivered twice. A dead-letter queue that keeps
// messages no longer than its source queue loses them. On AWS the numbers are in
// template.yaml, and a test fails if the template differs from this package. The
// embedded engine is configured from this package.
package topology

import (
	"time"

	"fedpost/internal/engine/queue"
)

// Function is one of the three functions.
type Function struct {
	// Name is the function's directory under functions/.
	Name string
	// Timeout is how long one invocation may run.
	Timeout time.Duration
	// Memory in MB; Lambda hands out CPU in proportion (1,769 MB is one core).
	Memory int
}

// The functions.
var (
	// Enqueue answers an API call. API Gateway gives up after 29 s, and nobody
	// would get an answer that comes later. The memory is for the largest request
	// (6 MB of JSON with 50,000 recipients) and, above all, for its share of CPU:
	// the caller waits while the request is parsed.
	Enqueue = Function{Name: "enqueue", Timeout: 29 * time.Second, Memory: 512}

	// Deliver works through a batch of up to 500 inboxes. The slowest inbox of
	// each round may take its whole 15 s, and four rounds fit. The batch's new TLS
	// connections and RSA signatures take 1.2 s of an x86 core, so 4 s of the share
	// that comes with 512 MB, the template's default; docs/costs.md compares sizes.
	Deliver = Function{Name: "deliver", Timeout: 60 * time.Second, Memory: 512}

	// HealthCheck runs every minute and stops by itself before its deadline. The
	// deadline is short of a minute, so that runs seldom overlap.
	HealthCheck = Function{Name: "healthcheck", Timeout: 55 * time.Second, Memory: 256}
)

// Functions lists all functions.
var Functions = []Function{Enqueue, Deliver, HealthCheck}

// HealthCheckEvery is the schedule of HealthCheck.
const HealthCheckEvery = time.Minute

// Queue holds the settings of an SQS queue and its event source.
type Queue struct {
	// Visibility is how long a received message stays hidden.
	Visibility time.Duration
	// Retention is how long a message is kept.
	Retention time.Duration
	// MaxReceives is how often a message is received before it moves to the
	// dead-letter queue; 0 for a dead-letter queue.
	MaxReceives int
	// BatchSize is the largest number of messages per invocation; 0 if no
	// function reads this queue.
	BatchSize int
	// Concurrency is how many invocations run at once for this queue. Every queue
	// has its own pollers, so a flood in another queue cannot take this share
	// away.
	Concurrency int
}

// visibility of the source queues. AWS asks for six times the function's
// timeout, so that a batch which was throttled for a while before it was run is
// not handed out again while it runs.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
const visibilityFactor = 6

const day = 24 * time.Hour

var queues = map[queue.Name]Queue{
	// A standard queue's limit of receives is a back-stop against messages that
	// kill the function. It is not the retry policy, which counts tries itself:
	// the policy's few tries, lost claims and throttled polls must all fit below
	// the limit. In the last 75 receives a message is only given up, with a record
	// (deliver.Limits.MaxReceives).
	queue.High:   {BatchSize: 10, Concurrency: 20, MaxReceives: 100},
	queue.Normal: {BatchSize: 10, Concurrency: 40, MaxReceives: 100},
	queue.Low:    {BatchSize: 10, Concurrency: 10, MaxReceives: 100},
	// When a message of a group on the ordered queue fails, all messages of the
	// group behind it are handed back, and each hand-back counts as a receive. A
	// low limit would move healthy messages to the dead-letter queue.
	queue.Ordered: {BatchSize: 10, Concurrency: 20, MaxReceives: 275},
	// A message that moves to a standard dead-letter queue keeps its age, so the
	// dead-letter queue must keep messages for longer than its source queues. 14
	// days is the most that SQS allows.
	queue.Dead:        {Retention: 14 * day, Visibility: 30 * time.Second},
	queue.DeadOrdered: {Retention: 14 * day, Visibility: 30 * time.Second},
}

// Of returns the settings of a queue.
func Of(n queue.Name) Queue {
	q := queues[n]
	if q.BatchSize > 0 {
		q.Visibility = visibilityFactor * Deliver.Timeout
		q.Retention = 7 * day
	}
	return q
}

// Sources lists the queues that the deliver function reads.
var Sources = []queue.Name{queue.High, queue.Normal, queue.Low, queue.Ordered}
