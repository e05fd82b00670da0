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

// network answers with delays, in the virtual time of a synctest bubble.
type network struct {
	hanging map[string]bool
	mu      sync.Mutex
	got     map[activity.ID]time.Time // the last healthy delivery
	n       map[activity.ID]int
}

func (n *network) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, _ int) outcome.Outcome {
		if n.hanging[t.Host()] {
			return world.Hang(ctx)
		}
		time.Sleep(200 * time.Millisecond) // virtual: the time a server takes
		n.mu.Lock()
		defer n.mu.Unlock()
		n.got[a.ID] = time.Now()
		n.n[a.ID]++
		return world.Status(202)
	}
}

// spread returns how long each of a series of activities, one every 5 s, takes
// until all healthy hosts have it.
func spread(t *testing.T, healthy, hanging, activities int) []time.Duration {
	var took []time.Duration
	synctest.Test(t, func(t *testing.T) {
		n := &network{hanging: map[string]bool{}, got: map[activity.ID]time.Time{}, n: map[activity.ID]int{}}
		w := world.New(t, world.Options{Now: time.Now, Protocol: n})
		var to []string
		for i := range healthy {
			to = append(to, fmt.Sprintf("https://h%d.example/inbox", i))
			if hanging > 0 && i%(healthy/hanging) == 0 {
				host := fmt.Sprintf("hangs%d.example", i)
				n.hanging[host] = true
				to = append(to, "https://"+host+"/inbox")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		m := w.Mapping(queue.Normal)
		wg.Go(func() { m.Run(ctx) })
		var sent []activity.ID
		var at []time.Time
		for range activities {
			at = append(at, time.Now())
			sent = append(sent, w.Send(w.Activity("Create"), to...))
			time.Sleep(5 * time.Second) // virtual
		}
		time.Sleep(3 * time.Minute) // virtual
		cancel()
		wg.Wait()
		for i, id := range sent {
			if n.n[id] != healthy {
				t.Fatalf("activity %d reached %d of %d healthy hosts", i, n.n[id], healthy)
			}
			took = append(took, n.got[id].Sub(at[i]))
		}
	})
	return took
}

// TestHangingHostsDelayNoOthers: where a host in eleven hangs, the healthy
// ones get each activity in at most 1.2 times the time that it takes without
// them, after the first minute of learning.
func TestHangingHostsDelayNoOthers(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const activities, learning = 24, 12
	hosts := long.Pick(200, 1000)
	without, with := spread(t, hosts, 0, activities), spread(t, hosts, hosts/10, activities)
	var a, b time.Duration
	for i := learning; i < activities; i++ {
		a, b = a+without[i], b+with[i]
	}
	t.Logf("without %v", without)
	t.Logf("with    %v", with)
	ratio := float64(b) / float64(a)
	t.Logf("after learning: %.2f times as long; in the first minute at most %s", ratio, maxOf(with[:learning]))
	if ratio > 1.2 {
		t.Errorf("hanging hosts make it %.2f times as long for the healthy ones", ratio)
	}
}

// TestNewHostsThatHangDelayNoSingleDeliveries: before the first time-out nobody knows that they
// hang, and a message of its own for each delivery may not wait for one of them.
func TestNewHostsThatHangDelayNoSingleDeliveries(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const deliveries, hosts, hanging = 2000, 200, 20
	synctest.Test(t, func(t *testing.T) {
		n := &network{hanging: map[string]bool{}, got: map[activity.ID]time.Time{}, n: map[activity.ID]int{}}
		for i := range hanging {
			n.hanging[fmt.Sprintf("h%d.example", i)] = true
		}
		w := world.New(t, world.Options{Now: time.Now, Protocol: n, Limits: deliver.Limits{
			PerQueue: local.PerQueue,
		}})
		m := w.Mapping(queue.Normal)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { m.Run(ctx) })
		var healthy []activity.ID
		for i := range deliveries {
			id := w.Send(w.Activity("Create"), fmt.Sprintf("https://h%d.example/inbox", i%hosts))
			if i%hosts >= hanging {
				healthy = append(healthy, id)
			}
		}
		time.Sleep(10 * time.Second) // virtual, and less than a time-out
		n.mu.Lock()
		for _, id := range healthy {
			if n.n[id] != 1 || n.got[id].Sub(began) > 4*time.Second {
				t.Fatalf("a healthy host got its delivery %d times, after %s", n.n[id], n.got[id].Sub(began))
			}
		}
		n.mu.Unlock()
		cancel()
		wg.Wait()
	})
}

// TestSlowHostsThatTakeEverythingDelayNoOthers: their circuits never open, and thousands of
// deliveries to them may wait at once, each for almost as long as an answer may take.
func TestSlowHostsThatTakeEverythingDelayNoOthers(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const healthy = 20
	backlog := long.Pick(1000, 2000) // more than a queue has places
	for name, c := range map[string]struct {
		each, hosts        int
		slow, within, last time.Duration
	}{
		"an activity for each":                    {1, 1, 14 * time.Second, 15 * time.Second, 0},
		"fifty inboxes in an activity":            {50, 1, 14 * time.Second, 15 * time.Second, 0},
		"one activity to many inboxes of three":   {backlog, 3, 14 * time.Second, time.Second, 0},
		"one activity to eight with many inboxes": {backlog, 8, 14 * time.Second, time.Second, 0},
		"one activity to ten that answer soon":    {backlog, 10, time.Second / 2, time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			name := func(i int) string { return fmt.Sprintf("slow%d.example", i%c.hosts) }
			synctest.Test(t, func(t *testing.T) {
				got := map[string]time.Time{} // by host, the last
				var mu sync.Mutex
				n := 0
				servers := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
					return func(_ context.Context, to activity.Target, _ int) outcome.Outcome {
						if strings.HasPrefix(to.Host(), "slow") {
							time.Sleep(c.slow) // virtual
						}
						mu.Lock()
						defer mu.Unlock()
						n++
						got[to.Host()] = time.Now()
						return world.Status(202)
					}
				})
				w := world.New(t, world.Options{Now: time.Now, Protocol: servers, Limits: deliver.Limits{
					PerQueue: local.PerQueue,
				}})
				m := w.Mapping(queue.Normal)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { m.Run(ctx) })
				for i := range c.hosts {
					w.Send(w.Activity("Create"), "https://"+name(i)+"/inbox")
				}
				time.Sleep(time.Minute) // virtual: the hosts have shown that they take what they get
				n = 0
				began := time.Now()
				for i := 0; i < backlog; i += c.each {
					var to []string
					for k := i; k < i+c.each; k++ {
						to = append(to, fmt.Sprintf("https://%s/%d/inbox", name(k), k))
					}
					w.Send(w.Activity("Create"), to...)
				}
				time.Sleep(time.Second) // virtual: they have all places that they get
				sent := time.Now()
				for i := range healthy {
					w.Send(w.Activity("Create"), fmt.Sprintf("https://ok%d.example/inbox", i))
				}
				time.Sleep(5 * time.Minute) // virtual
				mu.Lock()
				for i := range healthy {
					if at, ok := got[fmt.Sprintf("ok%d.example", i)]; !ok || at.Sub(sent) > c.within {
						t.Errorf("healthy host %d got its delivery: %t, after %s", i, ok, at.Sub(sent))
					}
				}
				last := got[name(0)].Sub(began)
				if c.last > 0 && last > c.last {
					t.Errorf("a slow host got its last delivery after %s, not within %s", last, c.last)
				}
				t.Logf("%d of %d were there after %s, the last of a slow host's after %s", n, backlog+healthy, time.Since(began), last)
				mu.Unlock()
				cancel()
				wg.Wait()
			})
		})
	}
}

func maxOf(ds []time.Duration) time.Duration {
	var m time.Duration
	for _, d := range ds {
		m = max(m, d)
	}
	return m
}
