// Package topology has the numbers on which infrastructure and code must agree: visibility
// timeouts, receive limits, timeouts of functions.
//
// They depend on each other. If the visibility timeout is shorter than the function's timeout, a
// message is delivered twice; if a dead-letter queue keeps messages no longer than its source
// queue, it loses them. A test compares template.yaml with this package; the other engines use
// it directly.
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
	// Enqueue answers an API call. API Gateway gives up after 29 s. The memory is for the share
	// of CPU: the caller waits while a request of up to 6 MB is parsed.
	Enqueue = Function{Name: "enqueue", Timeout: 29 * time.Second, Memory: 512}

	// Deliver works through a batch of up to 500 inboxes, in four rounds of 15 s at worst.
	// docs/costs.md compares sizes of memory.
	Deliver = Function{Name: "deliver", Timeout: 60 * time.Second, Memory: 512}

	// HealthCheck runs every minute; with less than a minute, runs seldom overlap.
	HealthCheck = Function{Name: "healthcheck", Timeout: 55 * time.Second, Memory: 256}
)

// Functions lists all functions.
var Functions = []Function{Enqueue, Deliver, HealthCheck}

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
	// Concurrency is how many invocations run at once for this queue at most.
	Concurrency int
}

// visibilityFactor is the visibility timeout of source queues in timeouts of the function, as AWS
// recommends: a batch may be throttled before it runs.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
const visibilityFactor = 6

const day = 24 * time.Hour

var queues = map[queue.Name]Queue{
	// A standard queue's receive limit is for messages that kill the function. The retry policy
	// counts attempts itself: its attempts, lost claims and throttled polls must fit below the
	// limit. In the last 75 receives a message is only given up, with a record
	// (deliver.Limits.MaxReceives).
	queue.High:   {BatchSize: 10, Concurrency: 20, MaxReceives: 100},
	queue.Normal: {BatchSize: 10, Concurrency: 40, MaxReceives: 100},
	queue.Low:    {BatchSize: 10, Concurrency: 10, MaxReceives: 100},
	// When a message of an ordered group fails, those after it are returned to the queue, which
	// counts as a receive of each. A low limit would move them to the dead-letter queue.
	queue.Ordered: {BatchSize: 10, Concurrency: 20, MaxReceives: 275},
	// A message keeps its age in a standard dead-letter queue, which must therefore keep messages
	// longer than its source queues. SQS allows 14 days at most.
	queue.Dead:        {Retention: 14 * day, Visibility: 30 * time.Second},
	queue.DeadOrdered: {Retention: 14 * day, Visibility: 30 * time.Second},
}

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
