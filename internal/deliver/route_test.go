package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/local"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/testkit/world"
)

const inboxA = "https://a.example/inbox"

// routed is a world whose one route is changed.
func routed(t *testing.T, o world.Options, change func(*protocol.Delivery)) *world.World {
	t.Helper()
	w := world.New(t, o)
	c := w.Config()
	c.Protocols = slices.Clone(c.Protocols)
	change(&c.Protocols[0].Delivery)
	w.Deliver = deliver.New(c)
	return w
}

// unsent is a failure before a request was made, which counts as one of the
// policy's tries or not.
func unsent(tried bool) outcome.Outcome {
	o := outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried, Err: "nothing was sent"}
	if tried {
		o.Try = outcome.Unsent
	}
	return o
}

func TestATryWithoutARequestCountsAgainstThePolicyAndNotInTheRecord(t *testing.T) {
	w := world.New(t, world.Options{Policy: retry.Sipher()})
	var at []time.Duration
	w.Servers.Script("a.example", func(world.Request, int) outcome.Outcome {
		at = append(at, w.Clock.Now().Sub(world.Start))
		return unsent(true)
	})
	id := w.Send(w.Activity("Create"), inboxA)
	w.Run(10*time.Minute, time.Second)
	if want := []time.Duration{0, 5e9, 15e9, 35e9, 75e9}; !slices.Equal(at, want) {
		t.Errorf("tried at %v, want %v", at, want)
	}
	r := w.States(id)[inboxA]
	if r.State != activity.Dead || r.Attempts != 0 || r.LastError != "nothing was sent" || r.Note != "5 tries failed" {
		t.Errorf("the record is %s, want dead without attempts after 5 tries in vain", world.Brief(r))
	}
	w.Quiet()
}

func TestTriesWithAndWithoutARequestAreCountedTogether(t *testing.T) {
	w := world.New(t, world.Options{Policy: retry.Sipher()})
	var numbers []int
	w.Servers.Script("a.example", func(r world.Request, _ int) outcome.Outcome {
		numbers = append(numbers, r.Attempt)
		if len(numbers)%2 == 1 {
			return unsent(true)
		}
		return world.Status(500)
	})
	id := w.Send(w.Activity("Create"), inboxA)
	w.Run(10*time.Minute, time.Second)
	if !slices.Equal(numbers, []int{1, 1, 2, 2, 3}) {
		t.Errorf("attempts were numbered %v", numbers)
	}
	if r := w.States(id)[inboxA]; r.State != activity.Dead || r.Attempts != 2 || r.Unsent != 3 {
		t.Errorf("the record is %s, want dead with 2 attempts and 3 unsent", world.Brief(r))
	}
}

func TestAFaultOfOursCostsNoTryWhateverThePolicy(t *testing.T) {
	w := world.New(t, world.Options{Policy: retry.Sipher()})
	calls := 0
	w.Servers.Script("a.example", func(world.Request, int) outcome.Outcome {
		if calls++; calls < 12 {
			return unsent(false)
		}
		return world.Status(202)
	})
	id := w.Send(w.Activity("Create"), inboxA)
	w.Run(6*time.Hour, 5*time.Second)
	if r := w.States(id)[inboxA]; r.State != activity.Delivered || r.Attempts != 1 || r.Unsent != 0 {
		t.Errorf("after %d calls: %s", calls, world.Brief(r))
	}
}

// TestASplitOffMessageCarriesTheTriesItWasLeft: its sender may have died before
// it recorded them.
func TestASplitOffMessageCarriesTheTriesItWasLeft(t *testing.T) {
	w := world.New(t, world.Options{Policy: retry.Sipher()})
	w.Servers.Script("a.example", func(world.Request, int) outcome.Outcome { return unsent(true) })
	a := w.Activity("Create")
	w.Send(a, inboxA)
	q := w.Engine.Queue(queue.Normal)
	got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("received %+v, error %v; want one message", got, err)
	}
	d := message.Delivery{Targets: []activity.Target{{Inbox: inboxA, Stands: 1}}, Attempts: 1, Unsent: 3}
	if err := q.Send(t.Context(), queue.Message{Body: world.Encode(t, message.Message{Activity: &a, Deliver: &d})}); err != nil {
		t.Fatal(err)
	}
	w.Work()
	if r := w.States(a.ID)[inboxA]; r.State != activity.Dead || r.Attempts != 1 || r.Unsent != 4 {
		t.Errorf("the record is %s, want dead with 1 attempt and 4 unsent", world.Brief(r))
	}
}

func TestAProtocolThatSentNothingIsBelievedAtTheTimeOut(t *testing.T) {
	for _, tried := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sender := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
				return func(ctx context.Context, _ activity.Target, _ int) outcome.Outcome {
					<-ctx.Done()
					return unsent(tried)
				}
			})
			w := routed(t, world.Options{Now: time.Now}, func(r *protocol.Delivery) { r.Sender, r.Policy = sender, retry.Sipher() })
			id := w.Send(w.Activity("Create"), inboxA)
			w.Poll(queue.Normal)
			r := w.States(id)[inboxA]
			if r.State != activity.Retrying || r.Attempts != 0 || (r.Unsent == 1) != tried {
				t.Errorf("tried %v: %s", tried, world.Brief(r))
			}
		})
	}
}

func TestARouteSaysHowLongItsAttemptsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		begun := 0
		sender := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(ctx context.Context, _ activity.Target, _ int) outcome.Outcome {
				began := time.Now()
				begun++
				<-ctx.Done()
				took = time.Since(began)
				return outcome.Outcome{Class: outcome.Retry, Err: "no answer"}
			}
		})
		w := routed(t, world.Options{Now: time.Now}, func(r *protocol.Delivery) {
			r.Sender, r.Policy, r.Attempt = sender, retry.Sipher(), 45*time.Second
		})
		id := w.Send(w.Activity("Create"), inboxA)
		m, err := w.Engine.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 1})
		if err != nil || len(m) != 1 {
			t.Fatalf("received %+v, error %v; want one message", m, err)
		}
		// 49 s are too few for an attempt and the reserve of 5 s, 51 s are enough.
		for limit, want := range map[time.Duration]int{49 * time.Second: 0, 51 * time.Second: 1} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			begun = 0
			if _, err := w.Deliver.Handle(ctx, queue.Normal, m); err != nil || begun != want {
				t.Errorf("with %s: %d attempts, %v", limit, begun, err)
			}
		}
		if r := w.States(id)[inboxA]; took != 45*time.Second || r.Attempts != 1 {
			t.Errorf("took %s; %s", took, world.Brief(r))
		}
	})
}

func TestADiscardedRecordKeepsItsEndOnly(t *testing.T) {
	for class, want := range map[outcome.Class]ledger.Recipient{
		outcome.Refused:   {State: activity.Failed, Note: "removed by its protocol; the log has the error"},
		outcome.Delivered: {State: activity.Delivered},
	} {
		w := world.New(t, world.Options{})
		w.Servers.Script("a.example", func(world.Request, int) outcome.Outcome {
			return outcome.Outcome{Class: class, Status: 200, Err: "wrong signature", Response: "{}", Note: "a note", Discard: true}
		})
		id := w.Send(w.Activity("Create"), inboxA)
		w.Work()
		r := w.States(id)[inboxA]
		got := ledger.Recipient{State: r.State, LastStatus: r.LastStatus, LastError: r.LastError, Response: r.Response, Note: r.Note}
		if got != want || r.Attempts != 1 {
			t.Errorf("%s: %s", class, world.Brief(r))
		}
	}
}

func TestAFinishedActivityIsKeptForAsLongAsItsRouteSays(t *testing.T) {
	for state, answer := range map[activity.State]int{activity.Delivered: 202, activity.Failed: 404, activity.Dead: 500} {
		w := routed(t, world.Options{Policy: retry.Sipher()}, func(r *protocol.Delivery) {
			r.KeepDelivered, r.KeepFailed = 24*time.Hour, 100*24*time.Hour // more than records are kept otherwise
		})
		w.Servers.Script("a.example", world.Answers(answer))
		w.Send(w.Activity("Create"), "https://other.example/inbox") // lest the queue is empty
		a := w.Activity("Create")
		id := w.Send(a, inboxA)
		w.Run(2*time.Minute, time.Second)
		w.Expect(id, map[string]activity.State{inboxA: state})
		keep := 100 * 24 * time.Hour
		if state == activity.Delivered {
			keep = 24 * time.Hour
		}
		w.Clock.Advance(keep - 3*time.Minute)
		w.Expect(id, map[string]activity.State{inboxA: state})
		w.Clock.Advance(3 * time.Minute)
		if _, err := w.Store.Activity(t.Context(), id); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: still there: %v", state, err)
		}
		if state != activity.Delivered {
			continue
		}
		// A copy of the message that comes after that is not sent.
		before := len(w.Servers.Got())
		d := message.Delivery{Position: message.Whole, Targets: []activity.Target{{Inbox: inboxA, Stands: 1}}}
		err := w.Engine.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: world.Encode(t, message.Message{Activity: &a, Deliver: &d})})
		if err != nil {
			t.Fatal(err)
		}
		w.Work()
		if n := len(w.Servers.Got()); n != before {
			t.Errorf("sent %d times more", n-before)
		}
	}
}

// crowd records how many attempts are under way at once.
type crowd struct {
	mu         sync.Mutex
	now, most  int
	host, peak map[string]int
	at         map[string]time.Time // the last delivery to a host
}

func (c *crowd) Prepare(context.Context, activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, _ int) outcome.Outcome {
		c.count(t.Host(), 1)
		defer c.count(t.Host(), -1)
		if t.Host() == "hangs.example" {
			return world.Hang(ctx)
		}
		<-time.After(100 * time.Millisecond)
		return world.Status(202)
	}
}

func (c *crowd) count(host string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.host[host] += n
	c.most, c.peak[host] = max(c.most, c.now), max(c.peak[host], c.host[host])
	if n < 0 {
		c.at[host] = time.Now()
	}
}

func TestALaneBoundsAProcessAndAHangingHostTakesAPartOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{host: map[string]int{}, peak: map[string]int{}, at: map[string]time.Time{}}
		w := routed(t, world.Options{Now: time.Now, Limits: deliver.Limits{PerQueue: local.PerQueue}}, func(r *protocol.Delivery) {
			r.Sender, r.Policy, r.InFlight, r.PerHost = c, retry.Sipher(), 10, 5
		})
		begin := time.Now()
		var stuck, well []activity.ID
		for range 80 {
			stuck = append(stuck, w.Send(w.Activity("Create"), "https://hangs.example/inbox"))
		}
		for n := range 40 {
			well = append(well, w.Send(w.Activity("Create"), fmt.Sprintf("https://h%d.example/inbox", n%4)))
		}
		var workers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		m := w.Mapping(queue.Normal)
		workers.Go(func() { m.Run(ctx) })
		<-time.After(time.Hour)
		cancel()
		workers.Wait()
		for _, id := range well {
			for inbox, r := range w.States(id) {
				if r.State != activity.Delivered || r.Attempts != 1 {
					t.Errorf("%s: %s", inbox, world.Brief(r))
				}
			}
		}
		dead := 0
		for _, id := range stuck {
			if r := w.States(id)["https://hangs.example/inbox"]; r.State == activity.Dead && r.Attempts == 5 {
				dead++
			}
		}
		if dead != len(stuck) {
			t.Errorf("%d of %d to the hanging host have come to their end", dead, len(stuck))
		}
		if c.most <= 5 || c.most > 10 || c.peak["hangs.example"] != 4 { // one inbox gets three quarters
			t.Errorf("%d at once, %d of them to the hanging host", c.most, c.peak["hangs.example"])
		}
		for n := range 4 {
			if late := c.at[fmt.Sprintf("h%d.example", n)].Sub(begin); late > 10*time.Second {
				t.Errorf("h%d had to wait for %s", n, late)
			}
		}
	})
}
