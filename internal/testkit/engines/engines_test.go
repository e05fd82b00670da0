package engines_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/testkit/engines"
)

// left names the cases of the contract that queues on the test's clock do not keep; no
// sweep depends on them.
var left = map[string]string{
	"MessageReceivedTooOftenIsADeadLetter":            "messages are never given up",
	"DeadLetterIsNotInTheWayOfOthers":                 "messages are never given up",
	"DeadLetterOfAFIFOQueueFreesItsGroup":             "messages are never given up",
	"DeadLettersOfAGroupKeepTheirOrder":               "messages are never given up",
	"ReceiveRules":                                    "receives are the test's own",
	"WaitingReceiveIsWokenByASend":                    "time stands still while a receive waits",
	"WaitingReceiveEndsWithItsContext":                "time stands still while a receive waits",
	"WaitingReceiveGetsWhatAnotherProcessDelays":      "time stands still while a receive waits",
	"WaitingReceiveGetsWhatAnotherProcessShowsSooner": "time stands still while a receive waits",
	"WaitingReceiveIsLikeAnyOther":                    "time stands still while a receive waits",
	"WaitingReceiveOfAMessageThatWasReceivedTooOften": "time stands still while a receive waits",
	"WaitingReceiveGetsWhatIsNotDelayed":              "time stands still while a receive waits",
	"WaitingReceivesShareABatch":                      "time stands still while a receive waits",
	"WaitingReceiveGetsNothingOfAGroupInFlight":       "time stands still while a receive waits",
	"VisibilityOver12HoursIsRefused":                  "messages are hidden for as long as the test says",
	"VisibilityIs12HoursInAllFromTheReceive":          "messages are hidden for as long as the test says",
	"VisibilityOfAMessageThatIsNotInFlightIsRefused":  "the server decides, and LocalStack changes it",
	"Depth": "the server counts a delayed message as visible until it is looked for",
}

// TestQueuesOfAServerKeepTheTestsTime: a server's queues, wrapped to follow the test's
// clock, keep the contract of queues over days.
func TestQueuesOfAServerKeepTheTestsTime(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		const visibility = 10 * time.Second
		c := queuetest.NewClock()
		configs := map[queue.Name]queue.Config{}
		for _, n := range queue.Names {
			configs[n] = queue.Config{Visibility: visibility}
		}
		i := engines.AWS().Open(t, engines.Options{Now: c.Now, Queues: configs})
		return queuetest.Harness{
			Standard: i.Queue(queue.Normal), FIFO: i.Queue(queue.Ordered), Dead: i.Queue(queue.Dead), DeadOrdered: i.Queue(queue.DeadOrdered),
			Visibility: visibility, MaxReceives: 3, Advance: c.Advance,
			Lacks: func(name string) string { return left[name] },
		}
	})
}
