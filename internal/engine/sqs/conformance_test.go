package sqs_test

import (
	"slices"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/long"
)

func TestConformance(t *testing.T) {
	awstest.Require(t, "SQS")
	lacks := awstest.QueueLacks(t)
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		const visibility, maxReceives = 2 * time.Second, 3
		queues := awstest.Queues(t, awstest.Settings{Visibility: visibility, MaxReceives: maxReceives})
		h := queuetest.Harness{
			Standard: queues[queue.Normal], FIFO: queues[queue.Ordered],
			Dead: queues[queue.Dead], DeadOrdered: queues[queue.DeadOrdered],
			Visibility: visibility, MaxReceives: maxReceives,
			Advance: func(d time.Duration) { awstest.Wait(t, d) },
			// With the long tests on, the end of the deduplication window is waited for.
			Patient: long.Pick(10*time.Second, queue.DedupWindow+time.Minute),
			Lacks: func(name string) string {
				if name == "WaitingReceiveOfAMessageThatWasReceivedTooOften" && awstest.Local("SQS") {
					return "a receive ends with nothing when the message that it waited for becomes a dead letter"
				}
				return lacks(name)
			},
		}
		if !awstest.Local("SQS") {
			h.Wait = time.Second // SQS is spread over machines: a short poll may miss some
		}
		return h
	})
}

func TestProbesExcuseCasesThatExist(t *testing.T) {
	for _, name := range awstest.QueueCasesExcused() {
		if !slices.Contains(queuetest.Cases(), name) {
			t.Errorf("the suite has no case %s", name)
		}
	}
}
