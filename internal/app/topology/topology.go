// Package topology is the one place for the numbers that the infrastructure
// and the code must agree on: how long a message stays hidden, how often it is
// received, how long the functions may run.
//
// These numbers hold each other: a visibility timeout shorter than a function
// makes it deliver twice, a dead-letter queue that keeps messages no longer
// than its source loses them. On AWS they live in template.yaml, locally the
// embedded engine sets them up by itself; a test reads the template and fails
// if it says anything else than this package.
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
	// Enqueue answers an API call. API Gateway gives up after 29 s, so running
	// longer could only do work whose answer nobody gets. The memory is for
	// the largest request (6 MB of JSON with 50,000 recipients) and, more than
	// that, for CPU: parsing it is what the caller waits for.
	Enqueue = Function{Name: "enqueue", Timeout: 29 * time.Second, Memory: 512}

	// Deliver works off a batch. Up to 500 inboxes may come in one, and the
	// slowest of each round may take its whole 15 s: four rounds fit. Almost
	// all of that is waiting, which costs memory but no CPU; the share of a
	// core that 512 MB brings signs 50 requests with RSA-2048 in well under a
	// second, where 128 MB would need ten milliseconds and more for each.
	Deliver = Function{Name: "deliver", Timeout: 60 * time.Second, Memory: 512}

	// HealthCheck runs every minute and stops by itself before its deadline,
	// which is short of a minute so that runs seldom overlap.
	HealthCheck = Function{Name: "healthcheck", Timeout: 55 * time.Second, Memory: 256}
)

// Functions lists all functions.
var Functions = []Function{Enqueue, Deliver, HealthCheck}

// HealthCheckEvery is the schedule of HealthCheck.
const HealthCheckEvery = time.Minute

// Queue is what an operator would set on an SQS queue and its event source.
type Queue struct {
	// Visibility is how long a received message stays hidden.
	Visibility time.Duration
	// Retention is how long a message is kept.
	Retention time.Duration
	// MaxReceives is how often a message is received before it goes to the
	// dead-letter queue; 0 if this is one.
	MaxReceives int
	// BatchSize is the most messages of one invocation; 0 if no function reads
	// this queue.
	BatchSize int
	// Concurrency is how many invocations run at once for this queue. Every
	// queue has its own pollers, so this is also a share that no flood in
	// another queue can take away.
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
	// kill the function, not the retry policy: that counts for itself, and its
	// few tries, lost claims and throttled polls must all fit below.
	queue.High:   {BatchSize: 10, Concurrency: 20, MaxReceives: 25},
	queue.Normal: {BatchSize: 10, Concurrency: 40, MaxReceives: 25},
	queue.Low:    {BatchSize: 10, Concurrency: 10, MaxReceives: 25},
	// On the ordered queue everything behind a failed message of its group is
	// handed back, and each time counts as a receive. A low limit would drag
	// healthy messages into the dead-letter queue behind a sick one.
	queue.Ordered: {BatchSize: 10, Concurrency: 20, MaxReceives: 200},
	// A message that moves to a standard dead-letter queue keeps its age, so
	// that queue must keep messages for longer than its sources do. 14 days is
	// the most that SQS allows.
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
