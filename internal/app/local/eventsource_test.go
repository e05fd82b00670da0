package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

// clock is a hand-driven clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func mapping(t *testing.T, name queue.Name, h Handler) (Mapping, *clock) {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	e, err := sqlite.Open(context.Background(), sqlite.Memory, sqlite.Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return Mapping{
		Queue: e.Queue(name), Name: name, ARN: "arn:aws:sqs:local:000000000000:" + string(name),
		BatchSize: 10, Concurrency: 2, Timeout: time.Minute, Handler: h, Log: slog.New(slog.DiscardHandler),
	}, c
}

func send(t *testing.T, m Mapping, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		msg := queue.Message{Body: b, Attributes: map[string]string{"reason": "test"}}
		if m.Queue.Capabilities().NativeDeduplication {
			msg.OrderingKey, msg.DeduplicationKey = "group", b
		}
		if err := m.Queue.Send(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
	}
}

func left(t *testing.T, m Mapping) int {
	t.Helper()
	d, err := m.Queue.Depth(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d.Visible + d.InFlight + d.Delayed
}

func fail(ids ...string) events.SQSEventResponse {
	r := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, id := range ids {
		r.BatchItemFailures = append(r.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
	}
	return r
}

func TestWhatIsNotReportedAsFailedIsDeleted(t *testing.T) {
	m, c := mapping(t, queue.Normal, nil)
	send(t, m, "good", "bad")
	var seen []string
	m.Handler = func(_ context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		var bad []string
		for _, r := range e.Records {
			seen = append(seen, r.Body)
			if r.Body == "bad" {
				bad = append(bad, r.MessageId)
			}
		}
		return fail(bad...), nil
	}
	if n, err := m.PollOnce(context.Background()); n != 2 || err != nil {
		t.Fatalf("PollOnce: %d, %v", n, err)
	}
	if n := left(t, m); n != 1 {
		t.Errorf("%d messages left, want the failed one", n)
	}
	c.Advance(queue.MaxVisibility)
	if _, err := m.PollOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || seen[2] != "bad" {
		t.Errorf("saw %v, want the failed one to come back", seen)
	}
}

func TestTheWholeBatchComesBackAfter(t *testing.T) {
	for name, h := range map[string]Handler{
		"an error": func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
			return fail(), errors.New("boom")
		},
		"a panic":    func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) { panic("boom") },
		"unknown id": func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) { return fail("nobody"), nil },
		"empty id":   func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) { return fail(""), nil },
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := mapping(t, queue.Normal, h)
			send(t, m, "a", "b")
			if _, err := m.PollOnce(context.Background()); err == nil {
				t.Error("no error")
			}
			if n := left(t, m); n != 2 {
				t.Errorf("%d messages left, want both", n)
			}
		})
	}
}

func TestTheEventHasLambdasShape(t *testing.T) {
	var got events.SQSMessage
	m, _ := mapping(t, queue.Ordered, func(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		got = e.Records[0]
		return fail(), nil
	})
	send(t, m, "hello")
	if _, err := m.PollOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got.Body != "hello" || got.EventSourceARN != m.ARN || got.EventSource != "aws:sqs" || got.Md5OfBody != "5d41402abc4b2a76b9719d911017c592" ||
		got.ReceiptHandle == "" || got.MessageId == "" || got.Attributes["ApproximateReceiveCount"] != "1" ||
		got.Attributes["SentTimestamp"] != "1795165200000" || len(got.Attributes["SequenceNumber"]) != 20 || got.Attributes["MessageGroupId"] == "" ||
		*got.MessageAttributes["reason"].StringValue != "test" {
		t.Errorf("record %+v", got)
	}
}

func TestRunDeliversUntilItIsStoppedAndThenFinishesWhatIsUnderWay(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	m, _ := mapping(t, queue.Normal, func(ctx context.Context, _ events.SQSEvent) (events.SQSEventResponse, error) {
		close(began)
		<-release
		return fail(), ctx.Err()
	})
	send(t, m, "slow")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { m.Run(ctx); close(done) }()
	<-began
	stop()
	close(release)
	<-done
	if n := left(t, m); n != 0 {
		t.Errorf("%d messages left: the delivery that was under way was cut off", n)
	}
}
