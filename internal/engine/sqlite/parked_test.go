package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// waiting has a receiver wait for messages until ctx ends.
func waiting(ctx context.Context, q queue.Queue) <-chan receipt {
	got := make(chan receipt, 1)
	go func() {
		ms, err := q.Receive(ctx, queue.ReceiveOptions{Max: 10, Wait: queue.MaxWait})
		got <- receipt{ms, err}
	}()
	synctest.Wait()
	return got
}

type receipt struct {
	messages []queue.Received
	err      error
}

// TestAReceiverThatWaitsHasAMessageWithTheCommitOfItsSend, while the next commit is under way.
func TestAReceiverThatWaitsHasAMessageWithTheCommitOfItsSend(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			e := openAt(t, file(t), Options{})
			q := e.Queue(name)
			got := waiting(t.Context(), q)
			var calls sync.WaitGroup
			release := blocked(t, e, &calls)
			calls.Go(func() { mustSend(t, q, message(name, 0)) })
			synctest.Wait()
			next := make(chan struct{})
			after := newJob(synced, func(*session) error { <-next; return nil })
			calls.Go(func() { // in the group of the send
				if err := e.write(t.Context(), func(*session) error { e.writer.jobs <- after; return nil }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			release()
			calls.Wait()
			synctest.Wait()
			select {
			case r := <-got:
				if r.err != nil || bodies(r.messages) != "0" || r.messages[0].ReceiveCount != 1 {
					t.Errorf("%s: received %v, %v", name, r.messages, r.err)
				}
			default:
				t.Errorf("%s: the message waits for another commit", name)
			}
			close(next)
			<-after.done
			if d, err := q.Depth(t.Context()); err != nil || d != (queue.Depth{InFlight: 1}) {
				t.Errorf("%s: the queue has %+v, %v", name, d, err)
			}
			if err := e.Recall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := receive(t, q, queue.ReceiveOptions{Max: 1}); len(again) != 1 || again[0].ReceiveCount != 2 {
				t.Errorf("%s: after a restart %v came", name, again)
			}
		})
	}
}

// TestAReceiverThatGivesUpDuringTheSendLosesNothing: its caller gives up, or its wait ends, while the
// commit of its message is under way.
func TestAReceiverThatGivesUpDuringTheSendLosesNothing(t *testing.T) {
	for about, end := range map[string]func(cancel func()){
		"the caller gave up": func(cancel func()) { cancel() },
		"the wait ended":     func(func()) { time.Sleep(2 * queue.MaxWait) },
	} {
		for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
			synctest.Test(t, func(t *testing.T) {
				e := openAt(t, file(t), Options{})
				q := e.Queue(name)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := waiting(ctx, q)
				var calls sync.WaitGroup
				release := blocked(t, e, &calls)
				calls.Go(func() { mustSend(t, q, message(name, 0)) })
				synctest.Wait()
				commit := blocked(t, e, &calls) // in the group of the send
				release()
				synctest.Wait()
				end(cancel)
				synctest.Wait()
				commit()
				calls.Wait()
				r := <-got
				if r.err != nil || bodies(r.messages) != "0" {
					t.Errorf("%s, %s: received %v, %v", about, name, r.messages, r.err)
				}
			})
		}
	}
}

// TestAReceiverThatGaveUpIsNotSentTo: the message stays visible.
func TestAReceiverThatGaveUpIsNotSentTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openAt(t, file(t), Options{})
		q := e.Queue(queue.Normal)
		ctx, cancel := context.WithCancel(t.Context())
		got := waiting(ctx, q)
		var calls sync.WaitGroup
		release := blocked(t, e, &calls)
		calls.Go(func() { mustSend(t, q, message(queue.Normal, 0)) })
		synctest.Wait()
		cancel()
		if r := <-got; !errors.Is(r.err, context.Canceled) {
			t.Errorf("received %v, %v", r.messages, r.err)
		}
		release()
		calls.Wait()
		if d, err := q.Depth(t.Context()); err != nil || d != (queue.Depth{Visible: 1}) {
			t.Errorf("the queue has %+v, %v", d, err)
		}
	})
}

// TestAReceiverGoesOnWaitingWhenTheSendFails: alone, or with its whole commit.
func TestAReceiverGoesOnWaitingWhenTheSendFails(t *testing.T) {
	boom := errors.New("boom")
	for about, fail := range map[string]func(*session) error{
		"a write is undone": func(s *session) error {
			return errors.Join(put(s, table.Item{Key: table.Key{PK: "p", SK: "undone"}}), boom)
		},
		"the commit fails": func(s *session) error { return s.exec("ROLLBACK") },
	} {
		for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
			synctest.Test(t, func(t *testing.T) {
				e := openAt(t, file(t), Options{})
				q := e.Queue(name)
				got := waiting(t.Context(), q)
				var calls sync.WaitGroup
				release := blocked(t, e, &calls)
				var sent, undone error
				calls.Go(func() { sent = q.Send(t.Context(), message(name, 0)) })
				synctest.Wait()
				calls.Go(func() { undone = e.write(t.Context(), fail) })
				synctest.Wait()
				release()
				calls.Wait()
				if undone == nil {
					t.Fatalf("%s, %s: the write succeeded", about, name)
				}
				want := "0"
				if sent != nil {
					want = "1"
					mustSend(t, q, message(name, 1))
				}
				if r := <-got; r.err != nil || bodies(r.messages) != want || r.messages[0].ReceiveCount != 1 {
					t.Errorf("%s, %s: received %v, %v; want %s", about, name, r.messages, r.err, want)
				}
				if n := rows(t, e, "message"); n != 1 {
					t.Errorf("%s, %s: %d messages are there", about, name, n)
				}
			})
		}
	}
}

// TestAReceiverThatComesWhileOthersWaitDoesNotRead, unless messages are there for which nobody was
// woken.
func TestAReceiverThatComesWhileOthersWaitDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openAt(t, file(t), Options{})
		q := e.Queue(queue.Normal)
		first := waiting(t.Context(), q)
		var calls sync.WaitGroup
		release := blocked(t, e, &calls)
		second := waiting(t.Context(), q)
		if n := len(e.writer.jobs); n != 0 {
			t.Errorf("%d receives wait for the writer", n)
		}
		release()
		calls.Wait()
		var ms []queue.Message
		for n := range 25 {
			ms = append(ms, message(queue.Normal, n))
		}
		mustSend(t, q, ms...)
		third := waiting(t.Context(), q)
		for i, got := range []<-chan receipt{first, second, third} {
			if r := <-got; r.err != nil || len(r.messages) == 0 {
				t.Errorf("receiver %d received %v, %v", i, r.messages, r.err)
			}
		}
	})
}

// TestAMessageBehindAReadOfItsCommitIsNotSleptThrough: the receiver reads the queue in the group of
// the send, but before it.
func TestAMessageBehindAReadOfItsCommitIsNotSleptThrough(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			e := openAt(t, file(t), Options{})
			q := e.Queue(name)
			var calls sync.WaitGroup
			release := blocked(t, e, &calls)
			got := waiting(t.Context(), q)
			calls.Go(func() { mustSend(t, q, message(name, 0)) })
			synctest.Wait()
			begun := time.Now()
			release()
			calls.Wait()
			if r := <-got; r.err != nil || bodies(r.messages) != "0" || time.Since(begun) > 0 {
				t.Errorf("%s: received %v, %v after %s", name, r.messages, r.err, time.Since(begun))
			}
		})
	}
}
