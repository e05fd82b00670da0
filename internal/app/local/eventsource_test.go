package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/sqlite"
)

func mapping(t *testing.T, name queue.Name, h Handler) (Mapping, *queuetest.Clock) {
	t.Helper()
	c := queuetest.NewClock()
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
		Queue: e.Queue(name), Name: name,
		BatchSize: 10, Messages: 20, Timeout: time.Minute, Handler: h, Log: slog.New(slog.DiscardHandler),
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

func TestWhatIsNotReportedAsFailedIsDeleted(t *testing.T) {
	m, c := mapping(t, queue.Normal, nil)
	send(t, m, "good", "bad")
	var seen []string
	m.Handler = func(_ context.Context, _ queue.Name, batch []queue.Received) ([]string, error) {
		var bad []string
		for _, r := range batch {
			seen = append(seen, r.Body)
			if r.Body == "bad" {
				bad = append(bad, r.ID)
			}
		}
		return bad, nil
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
		"an error": func(context.Context, queue.Name, []queue.Received) ([]string, error) {
			return nil, errors.New("boom")
		},
		"a panic":    func(context.Context, queue.Name, []queue.Received) ([]string, error) { panic("boom") },
		"unknown id": func(context.Context, queue.Name, []queue.Received) ([]string, error) { return []string{"nobody"}, nil },
		"empty id":   func(context.Context, queue.Name, []queue.Received) ([]string, error) { return []string{""}, nil },
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

func TestRunDeliversUntilItIsStoppedAndThenFinishesWhatIsUnderWay(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	m, _ := mapping(t, queue.Normal, func(ctx context.Context, _ queue.Name, _ []queue.Received) ([]string, error) {
		close(began)
		<-release
		return nil, ctx.Err()
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

// TestAMessageThatHangsHoldsItsOwnPermitOnly: with permits for a batch, nine messages that hang
// leave one permit, which all others use.
func TestAMessageThatHangsHoldsItsOwnPermitOnly(t *testing.T) {
	const permits, hanging, others = 10, 9, 50
	done, release := make(chan string), make(chan struct{})
	var under, most atomic.Int32
	m, _ := mapping(t, queue.Normal, func(_ context.Context, _ queue.Name, batch []queue.Received) ([]string, error) {
		defer under.Add(-int32(len(batch)))
		if n := under.Add(int32(len(batch))); n > most.Load() {
			most.Store(n)
		}
		for _, r := range batch {
			if strings.HasPrefix(r.Body, "hangs") {
				<-release
				continue
			}
			done <- r.Body
		}
		return nil, nil
	})
	m.Messages = permits
	for i := range hanging {
		send(t, m, fmt.Sprint("hangs ", i))
	}
	for i := range others {
		send(t, m, fmt.Sprint("other ", i))
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { m.Run(ctx); close(ended) }()
	for i := range others {
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d others came through", i, others)
		}
	}
	stop()
	close(release)
	<-ended
	if n := left(t, m); n != 0 || most.Load() > permits {
		t.Errorf("%d messages left; at most %d under way, want at most %d", n, most.Load(), permits)
	}
}

// TestAGroupOfABatchIsOneInvocationInItsOrder: two of a group never run at once, and a group
// waits for no other.
func TestAGroupOfABatchIsOneInvocationInItsOrder(t *testing.T) {
	runs := make(chan string, 10)
	m, _ := mapping(t, queue.Ordered, func(_ context.Context, _ queue.Name, batch []queue.Received) ([]string, error) {
		var bodies []string
		for _, one := range batch {
			bodies = append(bodies, one.Body)
		}
		runs <- strings.Join(bodies, " ")
		return nil, nil
	})
	for _, body := range []string{"a0", "b0", "a1", "b1", "a2", "b2"} {
		msg := queue.Message{Body: body, OrderingKey: body[:1], DeduplicationKey: body}
		if err := m.Queue.Send(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	permits := make(chan struct{}, m.Messages)
	var under sync.WaitGroup
	under.Go(func() { m.receive(ctx, permits, &under) })
	got := []string{<-runs, <-runs}
	stop()
	under.Wait()
	if len(permits) != 0 {
		t.Errorf("%d permits are kept", len(permits))
	}
	slices.Sort(got)
	if n := left(t, m); n != 0 || len(runs) != 0 || !slices.Equal(got, []string{"a0 a1 a2", "b0 b1 b2"}) {
		t.Errorf("invocations %q and %d others; %d messages left", got, len(runs), n)
	}
}

// TestAHandlerThatAlwaysFailsDoesNotRushThroughTheQueue: each message that is received is one
// receive nearer to the dead letters.
func TestAHandlerThatAlwaysFailsDoesNotRushThroughTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		m, _ := mapping(t, queue.Normal, func(context.Context, queue.Name, []queue.Received) ([]string, error) {
			calls.Add(1)
			return nil, errors.New("broken")
		})
		m.Messages = 10
		for i := range 100 {
			send(t, m, fmt.Sprint(i))
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(ctx); close(ended) }()
		time.Sleep(3*failurePause + failurePause/2) // virtual
		stop()
		<-ended
		if n := calls.Load(); n != 40 {
			t.Errorf("%d of 100 messages in 3.5 pauses with 10 permits, want 40", n)
		}
	})
}

// TestAQueueThatCannotBeReadIsAskedLessAndLessOften, and is served as soon as it can be.
func TestAQueueThatCannotBeReadIsAskedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{}, 1)
		m, _ := mapping(t, queue.Normal, func(context.Context, queue.Name, []queue.Received) ([]string, error) {
			done <- struct{}{}
			return nil, nil
		})
		send(t, m, "waits")
		broken := &unreadable{Queue: m.Queue}
		broken.down.Store(true)
		m.Queue, m.Messages = broken, 10
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(ctx); close(ended) }()
		time.Sleep(time.Minute) // virtual
		// 0.1 s, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, then 10 each.
		if n := broken.asked.Load(); n < 8 || n > 13 {
			t.Errorf("asked %d times in a minute", n)
		}
		broken.down.Store(false)
		began := time.Now()
		<-done
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("served %s after the queue could be read", took)
		}
		// The next outage begins with short pauses again.
		broken.down.Store(true)
		before := broken.asked.Load()
		time.Sleep(pollWait + 400*time.Millisecond) // virtual
		if n := broken.asked.Load() - before; n < 3 {
			t.Errorf("asked %d times in the first 0.4 s of the next outage", n)
		}
		stop()
		<-ended
	})
}

// unreadable is a queue that cannot be read while it is down.
type unreadable struct {
	queue.Queue
	down  atomic.Bool
	asked atomic.Int32
}

// Receive implements queue.Queue.
func (u *unreadable) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	u.asked.Add(1)
	if u.down.Load() {
		return nil, errors.New("down")
	}
	return u.Queue.Receive(ctx, o)
}
