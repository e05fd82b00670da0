package sqsevent

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/engine/queue"
)

type worker struct {
	got    map[queue.Name][]queue.Received
	failed []string
	err    error
}

func (w *worker) Handle(_ context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
	if w.got == nil {
		w.got = map[queue.Name][]queue.Received{}
	}
	w.got[from] = append(w.got[from], batch...)
	return w.failed, w.err
}

const (
	normal  = "arn:aws:sqs:eu-central-1:123456789012:fedpost-normal"
	ordered = "arn:aws:sqs:eu-central-1:123456789012:fedpost-ordered.fifo"
)

var sources = map[string]queue.Name{normal: queue.Normal, ordered: queue.Ordered}

// A record of a FIFO queue as AWS documents it.
// https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-fifo-queue-message-event
const fifoEvent = `{"Records":[{
	"messageId":"11d6ee51-4cc7-4302-9e22-7cd8afdaadf5","receiptHandle":"AQEBBX8nesZEXmkhsmZeyIE8iQAMig7qw...",
	"body":"Test message.","attributes":{"ApproximateReceiveCount":"3","SentTimestamp":"1573251510774",
	"SequenceNumber":"18849496460467696128","MessageGroupId":"1","SenderId":"AIDAIO23YVJENQZJOL4VO",
	"MessageDeduplicationId":"1","ApproximateFirstReceiveTimestamp":"1573251510774"},
	"messageAttributes":{"activity":{"stringValue":"01J","stringListValues":[],"binaryListValues":[],"dataType":"String"},
	"blob":{"binaryValue":"AQI=","dataType":"Binary"}},
	"md5OfBody":"e4e68fb7bd0e697a0ae8f1bb342846b3","eventSource":"aws:sqs",
	"eventSourceARN":"` + ordered + `","awsRegion":"eu-central-1"}]}`

func TestARecordIsReadWithAllThatTheQueueSaid(t *testing.T) {
	var e events.SQSEvent
	if err := json.Unmarshal([]byte(fifoEvent), &e); err != nil {
		t.Fatal(err)
	}
	w := &worker{}
	if _, err := (Handler{w, sources}).Handle(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	want := queue.Received{
		ID: "11d6ee51-4cc7-4302-9e22-7cd8afdaadf5", Handle: "AQEBBX8nesZEXmkhsmZeyIE8iQAMig7qw...", ReceiveCount: 3,
		Sequence: "18849496460467696128", SentAt: time.UnixMilli(1573251510774).UTC(),
		Message: queue.Message{Body: "Test message.", OrderingKey: "1", DeduplicationKey: "1", Attributes: map[string]string{"activity": "01J"}},
	}
	if got := w.got[queue.Ordered]; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestARecordMadeByHandIsAFirstReceipt(t *testing.T) {
	for _, attributes := range []map[string]string{nil, {"ApproximateReceiveCount": "none", "SentTimestamp": "then"}, {"ApproximateReceiveCount": "-1"}} {
		if m := received(events.SQSMessage{MessageId: "m", Attributes: attributes}); m.ReceiveCount != 1 || !m.SentAt.IsZero() {
			t.Errorf("%v: %+v", attributes, m)
		}
	}
}

func TestTheResponseNamesWhatFailedAndIsNeverNull(t *testing.T) {
	e := events.SQSEvent{Records: []events.SQSMessage{{MessageId: "a", EventSourceARN: normal}, {MessageId: "b", EventSourceARN: ordered}}}
	for _, c := range []struct {
		failed []string
		want   string
	}{
		{nil, `{"batchItemFailures":[]}`},
		{[]string{"a"}, `{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"a"}]}`}, // of both queues
	} {
		response, err := (Handler{&worker{failed: c.failed}, sources}).Handle(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(response); err != nil || string(got) != c.want {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
}

func TestAnErrorOfTheWorkerBringsTheBatchBack(t *testing.T) {
	broken := errors.New("unnamed")
	e := events.SQSEvent{Records: []events.SQSMessage{{EventSourceARN: normal}}}
	if _, err := (Handler{&worker{err: broken}, sources}).Handle(t.Context(), e); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	e.Records[0].EventSourceARN = "arn:aws:sqs:eu-central-1:123456789012:else"
	if _, err := (Handler{&worker{}, sources}).Handle(t.Context(), e); err == nil {
		t.Error("a queue that is not configured was worked on")
	}
}
