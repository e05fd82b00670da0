package awsqueue_test

import (
	"testing"
	"time"

	"fedpost/internal/awstest"
	"fedpost/internal/queue"
	"fedpost/internal/queue/queuetest"
)

func TestConformance(t *testing.T) {
	awstest.Require(t, "SQS")
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		const visibility, maxReceives = 2 * time.Second, 3
		queues := awstest.Queues(t, awstest.Settings{Visibility: visibility, MaxReceives: maxReceives})
		return queuetest.Harness{
			Standard: queues[queue.Normal], FIFO: queues[queue.Ordered],
			Dead: queues[queue.Dead], DeadOrdered: queues[queue.DeadOrdered],
			Visibility: visibility, MaxReceives: maxReceives,
			Advance: func(d time.Duration) { awstest.Wait(t, d) },
			Patient: 10 * time.Second,
		}
	})
}
