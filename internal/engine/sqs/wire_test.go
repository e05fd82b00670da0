package sqs_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqs"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/faults/wire"
)

// On a real server: a retry repairs one broken request of a send or a receive,
// and on the FIFO queue the retry doubles no message.
func TestCallsSurviveOneBrokenRequest(t *testing.T) {
	awstest.Require(t, "SQS")
	for _, kind := range []wire.Kind{wire.FailBefore, wire.Timeout, wire.DropResponse, wire.Throttle, wire.Break} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			url := awstest.QueueURLs(t, awstest.Settings{})[queue.Ordered]
			var faults []wire.Fault
			for _, operation := range []string{"SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"} {
				if operation == "ReceiveMessage" && kind == wire.DropResponse && !awstest.RepeatsReceives(t) {
					t.Log("not tested on ReceiveMessage: the server ignores ReceiveRequestAttemptId")
					continue
				}
				faults = append(faults, wire.Fault{Service: "SQS", Operation: operation, Request: 1, Kind: kind})
			}
			faulty := wire.NewWire(faults...)
			cfg := awstest.Config(t)
			cfg.APIOptions = append(cfg.APIOptions, faulty.Install)
			q := sqs.New(awstest.SQSOf(t, cfg), url, queue.Ordered, queue.Standard)

			if err := q.Send(t.Context(), queue.Message{Body: "1", OrderingKey: "g", DeduplicationKey: "1"}); err != nil {
				t.Fatal(err)
			}
			for _, err := range q.SendBatch(t.Context(), []queue.Message{
				{Body: "2", OrderingKey: "g", DeduplicationKey: "2"}, {Body: "other", OrderingKey: "h", DeduplicationKey: "1"},
			}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for range 3 {
				rs, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: time.Second, Visibility: time.Hour})
				if err != nil || len(rs) != 1 {
					t.Fatalf("received %d after %q, error %v", len(rs), got, err)
				}
				got = append(got, rs[0].Body)
				if err := q.ChangeVisibility(t.Context(), rs[0].Handle, time.Minute); err != nil {
					t.Error(err)
				}
				if err := q.Delete(t.Context(), rs[0].Handle); err != nil {
					t.Error(err)
				}
			}
			if rs, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10}); err != nil || len(rs) != 0 {
				t.Errorf("%d messages more than were sent, error %v", len(rs), err)
			}
			if faulty.Fired() != len(faults) {
				t.Errorf("%d of %d faults fired", faulty.Fired(), len(faults))
			}
		})
	}
}
