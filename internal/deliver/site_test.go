package deliver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/local"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestManyHangingHostsOfOneSiteDelayNoOthers: each hanging host by itself is spared after a
// few failures, but a stranger can have thousands of names below one domain.
func TestManyHangingHostsOfOneSiteDelayNoOthers(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const healthy = 20
	hanging := long.Pick(800, 1000) // more than a queue has places
	for name, send := range map[string]func(w *world.World, to []string){
		"one activity to all":  func(w *world.World, to []string) { w.Send(w.Activity("Create"), to...) },
		"an activity for each": func(w *world.World, to []string) { eachAlone(w, to, "") },
		"each in an order":     func(w *world.World, to []string) { eachAlone(w, to, "thread ") },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "one activity to all" {
				long.Only(t, "800 hosts that hang, and an activity for each shows more")
			}
			synctest.Test(t, func(t *testing.T) {
				s := &siteServers{accepted: map[string]time.Time{}, tried: map[string]bool{}}
				w := world.New(t, world.Options{Now: time.Now, Protocol: world.SenderFunc(s.prepare), Limits: deliver.Limits{
					PerQueue: local.PerQueue,
				}})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for _, n := range []queue.Name{queue.Normal, queue.Ordered} {
					m := w.Mapping(n)
					wg.Go(func() { m.Run(ctx) })
				}
				var to []string
				for i := range hanging {
					to = append(to, fmt.Sprintf("https://h%d.bad.example/inbox", i))
				}
				send(w, to)
				time.Sleep(time.Second) // virtual: the hosts have all places that they get
				sent := time.Now()
				for i := range healthy {
					a := w.Activity("Create")
					a.OrderingKey = strings.Repeat(fmt.Sprint("healthy ", i), i%2)
					w.Send(a, fmt.Sprintf("https://ok%d.example/inbox", i))
				}
				time.Sleep(time.Minute) // virtual
				s.mu.Lock()
				for i := range healthy {
					if at, ok := s.accepted[fmt.Sprintf("ok%d.example", i)]; !ok || at.Sub(sent) > 5*time.Second {
						t.Errorf("healthy host %d got its delivery: %t, after %s", i, ok, at.Sub(sent))
					}
				}
				tried := len(s.tried)
				s.mu.Unlock()
				least := 50
				if name == "each in an order" {
					// Who finds no place is parked at once, and no schedule runs here that would
					// release it: only the first to come are sure to be tried.
					least = 20
				}
				if tried < least {
					t.Errorf("%d hanging hosts were tried within a minute", tried)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

// eachAlone sends an activity to each inbox, ordered by keys of their own if order is given.
func eachAlone(w *world.World, to []string, order string) {
	for i, inbox := range to {
		a := w.Activity("Create")
		if order != "" {
			a.OrderingKey = fmt.Sprint(order, i)
		}
		w.Send(a, inbox)
	}
}

// siteServers hang if they are below bad.example, and accept after 200 ms otherwise.
type siteServers struct {
	mu       sync.Mutex
	accepted map[string]time.Time
	tried    map[string]bool
}

func (s *siteServers) prepare(context.Context, activity.Activity) protocol.Attempt {
	return func(ctx context.Context, to activity.Target, _ int) outcome.Outcome {
		s.mu.Lock()
		s.tried[to.Host()] = true
		s.mu.Unlock()
		if strings.HasSuffix(to.Host(), ".bad.example") {
			return world.Hang(ctx)
		}
		time.Sleep(200 * time.Millisecond) // virtual
		s.mu.Lock()
		defer s.mu.Unlock()
		s.accepted[to.Host()] = time.Now()
		return world.Status(202)
	}
}
