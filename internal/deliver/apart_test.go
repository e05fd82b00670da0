package deliver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// receive takes what is visible off a queue.
func receive(t *testing.T, w *world.World, n queue.Name) []queue.Received {
	t.Helper()
	got, err := w.Engine.Queue(n).Receive(t.Context(), queue.ReceiveOptions{Max: queue.MaxBatch})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// handle has a worker handle a batch, and returns how many messages come back.
func handle(t *testing.T, worker *deliver.Engine, batch []queue.Received) int {
	t.Helper()
	failed, err := worker.Handle(t.Context(), queue.Normal, batch)
	if err != nil {
		t.Error(err)
	}
	return len(failed)
}

// TestAnItemThatAWorkerHasTakenIsSentByNoOther: while one process is at an
// attempt, another gets a copy of the message. It sends nothing, and the copy
// comes back to it until the first is done.
func TestAnItemThatAWorkerHasTakenIsSentByNoOther(t *testing.T) {
	for name, position := range map[string]int{"a chunk": message.Whole, "a single target": 0} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			other := deliver.New(w.Config())
			a := w.Activity("Note")
			for range 2 {
				put(t, w, queue.Normal, message.Message{Activity: &a, Deliver: &message.Delivery{Position: position, Targets: targets([]string{fine})}})
			}
			got := receive(t, w, queue.Normal)
			kept, attempts := -1, 0
			w.Servers.Script(fine, func(world.Request, int) outcome.Outcome {
				if attempts++; attempts == 1 {
					kept = handle(t, other, got[1:])
				}
				return world.Status(202)
			})
			if n := handle(t, w.Deliver, got[:1]); n != 0 {
				t.Errorf("the worker that has the item did not finish %d", n)
			}
			if kept != 1 || attempts != 1 {
				t.Errorf("the other worker kept %d of 1 copies; %d attempts, want 1", kept, attempts)
			}
			if n := handle(t, other, got[1:]); n != 0 || attempts != 1 {
				t.Errorf("afterwards the copy came back %d times; %d attempts, want 1", n, attempts)
			}
		})
	}
}

// hang makes servers of a host hang until release is closed, and sends the inbox of each attempt to
// begun.
func hang(w *world.World, host string, begun chan<- string, release <-chan struct{}) {
	w.Servers.Script(host, func(r world.Request, _ int) outcome.Outcome {
		begun <- r.Inbox
		<-release
		return world.Status(202)
	})
}

// TestInvocationsShareNoStateButWhatIsKnownOfHosts: of two invocations of one
// engine, one hangs, is cancelled or has no time; the other neither waits for it
// nor ends with it. What one has learnt of a host, the other goes by.
func TestInvocationsShareNoStateButWhatIsKnownOfHosts(t *testing.T) {
	for name, spoil := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"hangs":        func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"is cancelled": context.WithCancel,
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{Limits: deliver.Limits{InFlight: 4, Messages: 1}})
			begun, release, done := make(chan string, 1), make(chan struct{}), make(chan struct{})
			hang(w, "sick.example", begun, release)
			w.Send(w.Activity("Note"), sick)
			first := receive(t, w, queue.Normal)
			ctx, cancel := spoil(t.Context())
			go func() {
				defer close(done)
				if _, err := w.Deliver.Handle(ctx, queue.Normal, first); err != nil {
					t.Error(err)
				}
			}()
			<-begun
			cancel()
			id := w.Send(w.Activity("Note"), fine)
			if n := handle(t, w.Deliver, receive(t, w, queue.Normal)); n != 0 || w.Servers.Accepted()[id][fine] != 1 {
				t.Errorf("%d came back, %v was accepted", n, w.Servers.Accepted()[id])
			}
			close(release)
			<-done
		})
	}
	t.Run("has no time", func(t *testing.T) {
		w := world.New(t, world.Options{})
		id := w.Send(w.Activity("Note"), fine)
		batch := receive(t, w, queue.Normal)
		late, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		if failed, err := w.Deliver.Handle(late, queue.Normal, batch); len(failed) != 1 || err != nil {
			t.Errorf("failed %v, %v", failed, err)
		}
		if n := handle(t, w.Deliver, batch); n != 0 || w.Servers.Accepted()[id][fine] != 1 {
			t.Errorf("%d came back, %v was accepted", n, w.Servers.Accepted()[id])
		}
	})
	t.Run("learns of a host", func(t *testing.T) {
		w := world.New(t, world.Options{})
		w.Servers.Script("sick.example", world.Down)
		for i := range 5 {
			w.Send(w.Activity("Note"), fmt.Sprintf("https://sick.example/%d", i))
		}
		handle(t, w.Deliver, receive(t, w, queue.Normal))
		before := len(w.Servers.Got())
		id := w.Send(w.Activity("Note"), sick)
		handle(t, w.Deliver, receive(t, w, queue.Normal))
		if n := len(w.Servers.Got()) - before; n != 0 || w.States(id)[sick].State != activity.Parked {
			t.Errorf("%d requests to a host that is known to be down; the delivery is %s", n, w.States(id)[sick].State)
		}
	})
}

// TestHighIsNotBehindAFloodOfLow: all places that a process has for the low
// queue are taken by hosts that hang, and more wait; what is on the high queue is
// sent at once, by consumers of its own, and nothing else is on it.
func TestHighIsNotBehindAFloodOfLow(t *testing.T) {
	const places = 4
	w := world.New(t, world.Options{Limits: deliver.Limits{InFlight: places, PerQueue: places}})
	begun, release, done := make(chan string, 10), make(chan struct{}), make(chan int)
	for i := range 10 {
		host := fmt.Sprintf("slow%d.example", i)
		hang(w, host, begun, release)
		a := w.Activity("Like")
		a.Priority = activity.Low
		w.Send(a, "https://"+host+"/inbox")
	}
	go func() { done <- w.Poll(queue.Low) }()
	for range places - 1 { // one is kept for hosts that answer at once
		<-begun
	}
	high := map[activity.ID]bool{}
	for range 10 {
		a := w.Activity("Delete")
		a.Priority = activity.High
		high[w.Send(a, "https://busy.example/inbox")] = true
	}
	if n := w.Poll(queue.High); n != 10 {
		t.Errorf("%d messages on the high queue, want 10", n)
	}
	for i, r := range w.Servers.Got() {
		if !high[r.Activity.ID] {
			t.Errorf("request %d is no urgent one", i)
		}
		delete(high, r.Activity.ID)
	}
	if len(high) > 0 {
		t.Errorf("%d urgent ones are not sent while the low ones hang", len(high))
	}
	close(release)
	if n := <-done; n != 10 {
		t.Errorf("%d messages on the low queue, want 10", n)
	}
}
