package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/lambda/sqsevent"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/world"
)

// fixture builds events as Lambda sends them.
type fixture struct {
	*world.World
	from  queue.Name
	event events.SQSEvent
}

func newFixture(t *testing.T, from queue.Name) *fixture {
	return &fixture{World: world.New(t, world.Options{Engine: engines.Embedded()}), from: from}
}

// add adds a record with a delivery of a new activity to inbox, in a group. The
// message is really on the queue and in flight.
func (f *fixture) add(id, group, inbox string) activity.ID {
	f.T.Helper()
	a := f.Activity("Note")
	if f.from.Ordered() {
		a.OrderingKey, a.Sequence = group, fmt.Sprintf("%020d0000", len(f.event.Records))
	}
	body := world.Encode(f.T, message.Message{Activity: &a, Deliver: &message.Delivery{Position: message.Whole, Targets: []activity.Target{{Inbox: inbox, Stands: 1}}}})
	if f.from.Ordered() {
		body = world.Encode(f.T, message.Message{Activity: &a, Deliver: &message.Delivery{Targets: []activity.Target{{Inbox: inbox, Stands: 1}}}})
	}
	f.addBody(id, group, body)
	return a.ID
}

func (f *fixture) addBody(id, group, body string) {
	r := events.SQSMessage{
		MessageId: id, ReceiptHandle: "handle of " + id, Body: body, EventSourceARN: world.ARN(f.from), EventSource: "aws:sqs",
		Attributes: map[string]string{"ApproximateReceiveCount": "1", "SentTimestamp": "1772366400000"},
	}
	if f.from.Ordered() {
		r.Attributes["MessageGroupId"] = group
		r.Attributes["SequenceNumber"] = fmt.Sprintf("%020d", len(f.event.Records))
	}
	f.event.Records = append(f.event.Records, r)
}

func (f *fixture) handle(ctx context.Context) (events.SQSEventResponse, error) {
	return sqsevent.Handler{Worker: f.Deliver, Sources: world.Sources()}.Handle(ctx, f.event)
}

// failures runs the event and returns the ids that are reported.
func (f *fixture) failures(ctx context.Context) []string {
	f.T.Helper()
	response, err := f.handle(ctx)
	if err != nil {
		f.T.Fatal(err)
	}
	if response.BatchItemFailures == nil {
		f.T.Fatal("the list of failures is null, which fails the whole batch on some engines")
	}
	ids := []string{}
	for _, b := range response.BatchItemFailures {
		ids = append(ids, b.ItemIdentifier)
	}
	return ids
}

func (f *fixture) expect(want ...string) {
	f.T.Helper()
	if got := f.failures(context.Background()); !slices.Equal(got, want) {
		f.T.Errorf("failed %v, want %v", got, want)
	}
}

const (
	fine = "https://fine.example/inbox"
	sick = "https://sick.example/inbox"
)

func sicken(f *fixture) { f.Servers.Script("sick.example", world.Answers(500)) }

func TestAnEmptyBatchSucceedsWithAnEmptyList(t *testing.T) {
	f := newFixture(t, queue.Normal)
	f.expect()
	response, err := f.handle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(response); err != nil || string(b) != `{"batchItemFailures":[]}` {
		t.Errorf("response %s, %v", b, err)
	}
}

func TestADuplicateMessageIDIsWorkedOnOnce(t *testing.T) {
	f := newFixture(t, queue.Normal)
	f.add("m1", "", fine)
	f.event.Records = append(f.event.Records, f.event.Records[0])
	f.event.Records[1].ReceiptHandle = "a later handle"
	f.expect()
	if n := len(f.Servers.Got()); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

func TestAMessageWithoutAnIDCannotBeReportedByName(t *testing.T) {
	f := newFixture(t, queue.Normal)
	f.add("", "", fine)
	f.add("m2", "", fine)
	f.expect()
	f.event.Records = nil
	f.addBody("", "", f.storeless(t))
	if response, err := f.handle(t.Context()); !errors.Is(err, deliver.ErrUnnamed) || len(response.BatchItemFailures) > 0 {
		t.Errorf("response %+v, error %v; want the whole batch back", response, err)
	}
}

// storeless is a delivery that fails through a fault of ours: the table is gone.
func (f *fixture) storeless(t *testing.T) string {
	t.Helper()
	a := f.Activity("Note")
	if err := f.Engine.(engines.File).Close(); err != nil {
		t.Fatal(err)
	}
	return world.Encode(t, message.Message{Activity: &a, Deliver: &message.Delivery{Position: message.Whole, Targets: []activity.Target{{Inbox: fine}}}})
}

func TestAllFailThroughAFaultOfOursAndAllAreReported(t *testing.T) {
	f := newFixture(t, queue.Normal)
	f.add("m1", "", fine)
	f.add("m2", "", fine)
	if err := f.Engine.(engines.File).Close(); err != nil {
		t.Fatal(err)
	}
	f.expect("m1", "m2")
}

func TestAFaultOfARemoteFailsNoMessageOfAStandardQueue(t *testing.T) {
	f := newFixture(t, queue.Normal)
	sicken(f)
	f.add("m1", "", sick)
	f.add("m2", "", sick)
	f.expect() // split off as messages of their own
	if d, err := f.Engine.Queue(queue.Normal).Depth(t.Context()); err != nil || d.Delayed != 2 {
		t.Errorf("the queue has %+v, error %v; want 2 delayed", d, err)
	}
}

func TestAFailureOfAGroupStopsItsGroupOnly(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string // group and server of each
		failed  []string
		sent    []string
	}{
		{"first of a group", []string{"a sick", "a fine", "b fine"}, []string{"m0", "m1"}, []string{"m2"}},
		{"last of a group", []string{"a fine", "a sick", "b fine"}, []string{"m1"}, []string{"m0", "m2"}},
		{"two groups", []string{"a fine", "b sick", "a sick", "b fine", "c fine", "a fine"}, []string{"m2", "m5", "m1", "m3"}, []string{"m0", "m4"}},
		{"all", []string{"a sick", "b sick"}, []string{"m0", "m1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, queue.Ordered)
			sicken(f)
			ids := map[activity.ID]string{}
			for i, r := range c.records {
				group, server, _ := strings.Cut(r, " ")
				name := fmt.Sprintf("m%d", i)
				ids[f.add(name, group, "https://"+server+".example/inbox")] = name
			}
			got := f.failures(t.Context())
			slices.Sort(got)
			slices.Sort(c.failed)
			if !slices.Equal(got, c.failed) {
				t.Errorf("failed %v, want %v", got, c.failed)
			}
			var sent []string
			for _, r := range f.Servers.Got() {
				if r.Accepted {
					sent = append(sent, ids[r.Activity.ID])
				}
			}
			slices.Sort(sent)
			if !slices.Equal(sent, c.sent) {
				t.Errorf("delivered %v, want %v", sent, c.sent)
			}
		})
	}
}

// comings records the order in which the visibility timeouts of messages are set.
type comings struct {
	deliver.Queue
	all []string
}

func (c *comings) ChangeVisibility(_ context.Context, handle string, d time.Duration) error {
	c.all = append(c.all, handle)
	if d < time.Second {
		c.all = append(c.all, "at once")
	}
	return nil
}

// Servers that call themselves SQS hand out a group again while some of it is in flight. The failed
// message must then come before those that follow it.
func TestAGroupComesBackTogether(t *testing.T) {
	for _, near := range []bool{false, true} {
		f := newFixture(t, queue.Ordered)
		sicken(f)
		for _, id := range []string{"m1", "m2", "m3"} {
			f.add(id, "a", sick)
		}
		config := f.Config()
		back := &comings{Queue: config.Queues(queue.Ordered)}
		config.Queues = func(queue.Name) deliver.Queue { return back }
		f.Deliver = deliver.New(config)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if near { // too late to begin anything
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		}
		defer cancel()
		if got := f.failures(ctx); len(got) != 3 {
			t.Errorf("failed %v", got)
		}
		if want := []string{"handle of m3", "handle of m2", "handle of m1"}; !slices.Equal(back.all, want) {
			t.Errorf("they were told to come back in the order %q, want %q", back.all, want)
		}
	}
}

func TestNothingIsBegunWhenTheDeadlineIsNear(t *testing.T) {
	f := newFixture(t, queue.Normal)
	ids := map[string]activity.ID{}
	ids["m1"] = f.add("m1", "", fine)
	ids["m2"] = f.add("m2", "", fine)
	ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
	defer cancel()
	if got := f.failures(ctx); !slices.Equal(got, []string{"m1", "m2"}) {
		t.Errorf("failed %v", got)
	}
	if n := len(f.Servers.Got()); n != 0 {
		t.Errorf("%d attempts", n)
	}
}

func TestTheDeadlineInMidBatchHandsBackWhatWasNotBegun(t *testing.T) {
	// A few at a time: were all begun at once, none would be left at the deadline.
	f := &fixture{World: world.New(t, world.Options{Limits: deliver.Limits{InFlight: 4}}), from: queue.Normal}
	a := f.Activity("Note")
	to := inboxes(50)
	targets := make([]activity.Target, len(to))
	for i, in := range to {
		targets[i] = activity.Target{Inbox: in, Stands: 1}
		f.Servers.Script(activity.HostOf(in), func(r world.Request, _ int) outcome.Outcome {
			f.Clock.Advance(2 * time.Second) // each answer takes its time
			return world.Status(202)
		})
	}
	f.addBody("m1", "", world.Encode(t, message.Message{Activity: &a, Deliver: &message.Delivery{Position: message.Whole, Targets: targets}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got := f.failures(ctx); !slices.Equal(got, []string{"m1"}) {
		t.Fatalf("failed %v", got)
	}
	if n := len(f.Servers.Got()); n == 0 || n == len(to) {
		t.Fatalf("%d attempts before the deadline", n)
	}
	for range 10 {
		f.event.Records[0].Attributes["ApproximateReceiveCount"] = "2"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if len(f.failures(ctx)) == 0 {
			cancel()
			break
		}
		cancel()
	}
	for _, in := range to {
		if n := f.Servers.Accepted()[a.ID][in]; n != 1 {
			t.Errorf("%s got it %d times", in, n)
		}
	}
}

func TestRedeliveryAfterPartialSuccessSendsTheRestOnly(t *testing.T) {
	f := newFixture(t, queue.Normal)
	sicken(f)
	a := f.Activity("Note")
	body := world.Encode(t, message.Message{Activity: &a, Deliver: &message.Delivery{
		Position: message.Whole, Targets: []activity.Target{{Inbox: fine, Stands: 1}, {Inbox: sick, Stands: 1}},
	}})
	f.addBody("m1", "", body)
	f.expect()
	f.event.Records[0].Attributes["ApproximateReceiveCount"] = "2"
	f.expect()
	if got := f.Servers.Got(); len(got) != 2 {
		t.Errorf("%d attempts, want one each", len(got))
	}
	if d, err := f.Engine.Queue(queue.Normal).Depth(t.Context()); err != nil || d.Delayed != 1 {
		t.Errorf("%+v, %v; want one message for the one that failed", d, err)
	}
}

func TestAPanicFailsItsTargetOnly(t *testing.T) {
	w := world.New(t, world.Options{})
	const poison = "https://poison.example/inbox"
	w.Servers.Script(poison, func(_ world.Request, n int) outcome.Outcome {
		panic("poison")
	})
	id := w.Send(w.Activity("Note"), poison, fine)
	w.Run(2*time.Minute, time.Second)
	w.Expect(id, map[string]activity.State{fine: activity.Delivered, poison: activity.Parked})
	if r := w.States(id)[poison]; !strings.Contains(r.LastError, "internal error: poison") || r.Attempts != 5 {
		t.Errorf("the record is %s, want 5 attempts that end in the error poison", world.Brief(r))
	}
	if w.Servers.Accepted()[id][fine] != 1 {
		t.Error("its neighbour was sent to again")
	}
}

func TestAnUnknownSourceIsAnErrorOfConfiguration(t *testing.T) {
	f := newFixture(t, queue.Normal)
	f.add("m1", "", fine)
	f.event.Records[0].EventSourceARN = "arn:aws:sqs:eu-central-1:123456789012:other"
	if _, err := f.handle(t.Context()); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("error %v", err)
	}
}
