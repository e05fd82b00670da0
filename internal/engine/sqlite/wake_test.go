package sqlite

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
)

func TestAMessageThatBecomesVisibleBetweenTwoLooksIsNotSleptThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queuetest.SleepThroughNothing(t, func(now func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
			return openAt(t, Memory, Options{Now: now, Queues: configs})
		})
	})
}

// TestOneMessageWakesOneReceiver counts how often the receivers that wait look at the
// queue: each look reads the clock.
func TestOneMessageWakesOneReceiver(t *testing.T) {
	const receivers = 40
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			var looks atomic.Int64
			q := openAt(t, Memory, Options{Now: func() time.Time { looks.Add(1); return time.Now() }}).Queue(name)
			got := make(chan string, receivers)
			for range receivers {
				go func() {
					ms, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
					if err != nil {
						t.Error(err)
					}
					got <- bodies(ms)
				}()
			}
			synctest.Wait()
			for n := range 3 {
				looks.Store(0)
				begun := time.Now()
				mustSend(t, q, message(name, n))
				if b := <-got; b != fmt.Sprint(n) || time.Since(begun) > 0 {
					t.Errorf("%s: received %q after %s", name, b, time.Since(begun))
				}
				synctest.Wait()
				// Two looks of the receiver that was woken, at the queue and for the next message,
				// and two of the one that now watches the time.
				if n := looks.Load(); n > 8 {
					t.Errorf("%s: one message had the clock read %d times", name, n)
				}
			}
			for range receivers - 3 {
				<-got
			}
		})
	}
}

// TestMessagesThatOneReceiverTakesWakeOne counts looks at the queue when nine messages come
// at once.
func TestMessagesThatOneReceiverTakesWakeOne(t *testing.T) {
	const receivers = 40
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			var looks atomic.Int64
			q := openAt(t, Memory, Options{Now: func() time.Time { looks.Add(1); return time.Now() }}).Queue(name)
			got := make(chan int, receivers)
			for range receivers {
				go func() {
					ms, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
					if err != nil {
						t.Error(err)
					}
					got <- len(ms)
				}()
			}
			synctest.Wait()
			looks.Store(0)
			var ms []queue.Message
			for n := range 9 {
				ms = append(ms, message(name, n))
			}
			begun := time.Now()
			mustSend(t, q, ms...)
			if n := <-got; n != 9 || time.Since(begun) > 0 {
				t.Errorf("%s: received %d messages after %s", name, n, time.Since(begun))
			}
			synctest.Wait()
			if n := looks.Load(); n > 8 {
				t.Errorf("%s: nine messages had the clock read %d times", name, n)
			}
			for range receivers - 1 {
				<-got
			}
		})
	}
}

// message is one that may be sent to the queue.
func message(name queue.Name, n int) queue.Message {
	if name.Ordered() {
		return ordered(fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(n))
	}
	return queue.Message{Body: fmt.Sprint(n)}
}

// TestAsManyMessagesWakeAsManyReceivers sends five messages to receivers that take one each.
func TestAsManyMessagesWakeAsManyReceivers(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			q := openAt(t, Memory, Options{}).Queue(name)
			got := make(chan string, 10)
			for range 10 {
				go func() {
					ms, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: 20 * time.Second})
					if err != nil {
						t.Error(err)
					}
					got <- bodies(ms)
				}()
			}
			synctest.Wait()
			begun := time.Now()
			var ms []queue.Message
			for n := range 5 {
				ms = append(ms, message(name, n))
			}
			mustSend(t, q, ms...)
			for range 5 {
				if b := <-got; b == "" || time.Since(begun) > 0 {
					t.Errorf("%s: received %q after %s", name, b, time.Since(begun))
				}
			}
			for range 5 {
				if b := <-got; b != "" {
					t.Errorf("%s: received %q, a sixth message", name, b)
				}
			}
		})
	}
}

// TestTheEndOfAVisibilityTimeoutWakesAReceiver, whichever of those that wait has left in the
// meantime, and whether the time was made shorter or longer.
func TestTheEndOfAVisibilityTimeoutWakesAReceiver(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		for _, change := range []time.Duration{2 * time.Second, 9 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				q := openAt(t, Memory, Options{}).Queue(name)
				mustSend(t, q, message(name, 0))
				held := receive(t, q, queue.ReceiveOptions{Visibility: 5 * time.Second})
				type result struct {
					body string
					at   time.Duration
				}
				begun, got := time.Now(), make(chan result, 10)
				for n := range 10 {
					ctx := t.Context()
					if n < 3 { // the first to wait are the first to leave
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, time.Second)
						defer cancel()
					}
					go func() {
						ms, err := q.Receive(ctx, queue.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
						got <- result{bodies(ms), time.Since(begun)}
					}()
					synctest.Wait()
				}
				if err := q.ChangeVisibility(t.Context(), held[0].Handle, change); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					<-got
				}
				if r := <-got; r.body != "0" || r.at != change {
					t.Errorf("%s: received %q after %s, want it after %s", name, r.body, r.at, change)
				}
				for range 6 {
					if r := <-got; r.body != "" {
						t.Errorf("%s: received %q again", name, r.body)
					}
				}
			})
		}
	}
}

// TestAReceiverThatGotOtherMessagesLeavesNoneBehind: ten messages become visible without a timer,
// because the clock is set, and the one receiver that ten new messages wake gets those.
func TestAReceiverThatGotOtherMessagesLeavesNoneBehind(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			c := queuetest.NewClock()
			q := openAt(t, Memory, Options{Now: c.Now}).Queue(name)
			send := func(first int) {
				t.Helper()
				var ms []queue.Message
				for n := range 10 {
					ms = append(ms, message(name, first+n))
				}
				mustSend(t, q, ms...)
			}
			send(100)
			receive(t, q, queue.ReceiveOptions{Visibility: time.Hour})
			got := make(chan int, 3)
			for range 3 {
				go func() {
					ms, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
					if err != nil {
						t.Error(err)
					}
					got <- len(ms)
				}()
			}
			synctest.Wait()
			c.Advance(2 * time.Hour)
			begun := time.Now()
			send(200)
			if a, b := <-got, <-got; a != 10 || b != 10 || time.Since(begun) > 0 {
				t.Errorf("%s: received %d and %d messages after %s", name, a, b, time.Since(begun))
			}
			if n := <-got; n != 0 {
				t.Errorf("%s: received %d messages that nobody sent", name, n)
			}
		})
	}
}

// TestTheNextMessageOfAGroupIsNotSleptThrough: the first message of a group is deleted, or becomes a
// dead letter, and the next was handed back for a second. Until then the group was to be free after
// the first message's visibility timeout.
func TestTheNextMessageOfAGroupIsNotSleptThrough(t *testing.T) {
	for about, drop := range map[string]func(ctx context.Context, q queue.Queue, handle string) error{
		"deleted": func(ctx context.Context, q queue.Queue, handle string) error { return q.Delete(ctx, handle) },
		"a dead letter": func(ctx context.Context, q queue.Queue, handle string) error {
			return q.ChangeVisibility(ctx, handle, 0)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := openAt(t, Memory, Options{Queues: map[queue.Name]queue.Config{queue.Ordered: {MaxReceives: 2}}}).Queue(queue.Ordered)
			mustSend(t, q, ordered("g", "1", "first"))
			receive(t, q, queue.ReceiveOptions{Visibility: time.Second})
			mustSend(t, q, ordered("g", "2", "second"))
			time.Sleep(time.Second)
			held := receive(t, q, queue.ReceiveOptions{Visibility: time.Minute})
			first, second := waiting(t.Context(), q), waiting(t.Context(), q)
			if err := q.ChangeVisibility(t.Context(), held[1].Handle, time.Second); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := drop(t.Context(), q, held[0].Handle); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			var r receipt
			select {
			case r = <-first:
			case r = <-second:
			}
			if r.err != nil || bodies(r.messages) != "second" || time.Since(begun) != time.Second {
				t.Errorf("%s: received %v, %v after %s", about, r.messages, r.err, time.Since(begun))
			}
		})
	}
}

// TestAShortVisibilityTimeoutWakesInTime: it began after the receiver that watches the time had
// looked for the next message.
func TestAShortVisibilityTimeoutWakesInTime(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			q := openAt(t, Memory, Options{}).Queue(name)
			first, second := waiting(t.Context(), q), waiting(t.Context(), q)
			third := make(chan []queue.Received, 1)
			go func() {
				third <- receive(t, q, queue.ReceiveOptions{Wait: queue.MaxWait, Visibility: time.Second})
			}()
			synctest.Wait()
			begun := time.Now()
			mustSend(t, q, message(name, 0))
			if ms := <-third; len(ms) != 1 {
				t.Fatalf("%s: received %v", name, ms)
			}
			var r receipt
			select {
			case r = <-first:
			case r = <-second:
			}
			if r.err != nil || bodies(r.messages) != "0" || time.Since(begun) != time.Second {
				t.Errorf("%s: received %v, %v after %s", name, r.messages, r.err, time.Since(begun))
			}
		})
	}
}
