package bench

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

var (
	kills = flag.Int("kills", 0, "how often TestKill kills the server, alone on the machine; 0 is 3 times, beside other tests")
	seed  = flag.Uint64("seed", 0, "of what is random; 0 is a new one each time")
)

// mostAge is how old an answer may be at a kill whose record is lost. By design it is a second, which the
// simulations check; here the machine may be busy.
const mostAge = 10 * time.Second

// TestKill kills `fedpost up` with SIGKILL at random moments, some of them during its start, while callers
// send activities. All accepted deliveries arrive in the end, in order where requested, and none
// twice except those answered just before a kill.
func TestKill(t *testing.T) {
	long.Only(t, "a process is killed again and again")
	aside(t, *kills == 0)
	n, random := cmp.Or(*kills, 3), draws(t)
	command, data := e2e.Build(t), t.TempDir()
	settings := map[string]string{"DELIVERY_TIMEOUT": "10s"}
	p := e2e.Up(t, command, data, settings)
	w := &victim{t: t, fleet: newFleet(t, random.Uint64(), 1, kindly(60)), accepted: map[string]sent{}}
	w.url.Store(p.URL)
	if _, err := w.client().PutKey(t.Context(), fediverse.Ed25519KeyID, e2e.PrivatePEM(t, fediverse.Ed25519KeyID)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for caller := range 4 {
		mine := rand.New(rand.NewPCG(random.Uint64(), 0))
		callers.Go(func() { w.call(ctx, caller, mine) })
	}
	var died []time.Time
	begin := time.Now()
	for range n {
		rest(ctx, time.Millisecond+time.Duration(random.Int64N(int64(2*time.Second))))
		p.Kill()
		died = append(died, time.Now())
		if random.IntN(4) == 0 {
			// Killed again, most often before it listens.
			early := e2e.Launch(t, command, data, settings)
			rest(ctx, time.Millisecond+time.Duration(random.Int64N(int64(100*time.Millisecond))))
			early.Kill()
			died = append(died, time.Now())
		}
		p = e2e.Up(t, command, data, settings)
		w.url.Store(p.URL)
	}
	stop()
	callers.Wait()
	took := time.Since(begin)
	deliveries := w.settled()
	for err, n := range w.refused {
		t.Errorf("%d requests were not as they should be: %s", n, err)
	}
	for _, fault := range w.faults {
		t.Error(fault)
	}
	oldest := w.explained(died)
	t.Logf("%d kills, and %d of processes that were starting, in %s: %d activities accepted, %d deliveries, 0 lost, %d of them twice; the oldest of these was answered %s before a kill; %d calls failed",
		n, len(died)-n, took.Round(time.Second), len(w.accepted), deliveries, len(w.doubles), oldest.Round(time.Millisecond), w.failed.Load())
}

// aside lets a test that mostly waits run beside others, unless it is a measurement.
func aside(t *testing.T, ok bool) {
	t.Helper()
	if ok {
		t.Parallel()
	}
}

// draws is the source of what is random, of the seed that was asked for.
func draws(t testing.TB) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// kindly are servers that accept everything, half of them after a while, so that a kill finds
// requests under way.
func kindly(n int) []server {
	servers := make([]server, n)
	for i := range servers {
		servers[i] = server{kind: "quick", mood: accept}
		if i%2 == 1 {
			servers[i] = server{kind: "slow", mood: slow(30 * time.Millisecond)}
		}
	}
	return servers
}

// victim is a process that is killed, with the servers that it delivers to.
type victim struct {
	*fleet
	t      *testing.T
	url    atomic.Value // string
	next   atomic.Int64
	failed atomic.Int64

	mu       sync.Mutex
	accepted map[string]sent // by id
}

// sent is an activity that was accepted.
type sent struct{ number, from, to int }

// deliveries are the recipients of s.
func (s sent) deliveries() int { return s.to - s.from }

// direct does not keep connections to processes that are dead.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (w *victim) client() *client.Client {
	return caller.Of(w.t, w.url.Load().(string), client.HTTPClient(direct))
}

// call submits activities one by one, of 1 to 90 recipients, some of them in order. One that failed
// may still have been accepted, so it is repeated with its key, as careful callers do, until it is
// known to be accepted. Others go on meanwhile, except those whose order it would break.
func (w *victim) call(ctx context.Context, caller int, random *rand.Rand) {
	var open []call
	retry := time.Now()
	for ctx.Err() == nil {
		number, order := int(w.next.Add(1)), -1
		from := random.IntN(1000)
		to := from + []int{1, 5, 60, 90}[random.IntN(4)]
		s := client.Submission{KeyID: fediverse.Ed25519KeyID, DeduplicationKey: fmt.Sprint("kill-", number)}
		if random.IntN(4) == 0 && !slices.ContainsFunc(open, call.ordered) {
			order, to = caller, from+3
			s.OrderingKey = fmt.Sprint("caller-", caller)
		}
		s.Activity = []byte(activity(number, order))
		for user := from; user < to; user++ {
			s.Recipients = append(s.Recipients, client.Recipient{Inbox: w.inboxOf(user)})
		}
		if one := (call{s, sent{number, from, to}}); !w.submit(one) {
			open = append(open, one)
		}
		if time.Since(retry) > time.Second {
			open, retry = slices.DeleteFunc(open, w.submit), time.Now()
		}
		rest(ctx, time.Duration(random.IntN(40))*time.Millisecond+1)
	}
	for *kills > 0 && len(open) > 0 && w.t.Context().Err() == nil {
		open = slices.DeleteFunc(open, w.submit)
		rest(w.t.Context(), time.Second)
	}
}

// call is one that may have to be repeated.
type call struct {
	client.Submission
	sent
}

func (c call) ordered() bool { return c.OrderingKey != "" }

// submit makes a call and reports whether it was accepted.
func (w *victim) submit(c call) bool {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	a, err := w.client().Send(ctx, c.Submission)
	if err != nil {
		w.failed.Add(1)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted[a.ID] = c.sent
	return true
}

// settled waits until all that was accepted is delivered, checks that every
// server has it, and that nothing is left on the queues. It returns the number
// of deliveries.
func (w *victim) settled() int {
	w.t.Helper()
	c, deliveries := w.client(), 0
	for id, of := range w.accepted {
		want := map[string]int{"delivered": of.deliveries()}
		e2e.Await(w.t, 3*time.Minute, "activity "+id, func() (bool, string) {
			s, err := c.Activity(w.t.Context(), id)
			if err != nil {
				return false, err.Error()
			}
			return s.Status == "done" && maps.Equal(s.Counts, want), fmt.Sprintf("%s %v, want %v", s.Status, s.Counts, want)
		})
		deliveries += of.deliveries()
		for user := of.from; user < of.to; user++ {
			if !w.has(delivery{of.number, user}) {
				w.t.Errorf("activity %d is said to be delivered to user %d, whose server never took it", of.number, user)
			}
		}
	}
	idle(w.t, c)
	return deliveries
}

// idle waits until the queues are empty, dead letters apart.
func idle(t testing.TB, c *client.Client) {
	t.Helper()
	e2e.Await(t, 2*time.Minute, "empty queues", func() (bool, string) {
		var s client.Stats
		if err := c.Do(t.Context(), http.MethodGet, "/v1/stats", nil, &s); err != nil {
			return false, err.Error()
		}
		left := 0
		for name, d := range s.Queues {
			if name != "dead" && name != "dead-ordered" {
				left += d.Visible + d.InFlight + d.Delayed
			}
		}
		return left == 0 && len(s.Queues) > 0, fmt.Sprintf("%d messages: %v", left, s.Queues)
	})
}

// explained checks that a kill lies between the two times that something was
// taken, and returns the highest age of a first answer at the kill.
func (w *victim) explained(died []time.Time) (oldest time.Duration) {
	w.t.Helper()
	for _, d := range w.doubles {
		at := slices.IndexFunc(died, func(at time.Time) bool { return at.After(d.first) && at.Before(d.second) })
		if at < 0 {
			// A server may work on a request whose sender is dead already.
			at = slices.IndexFunc(died, func(at time.Time) bool { return at.After(d.first.Add(-time.Second)) && at.Before(d.second) })
		}
		if at < 0 {
			w.t.Errorf("activity %d was taken for user %d at %s and again at %s, and no kill explains it", d.activity, d.user, d.first, d.second)
			continue
		}
		age := died[at].Sub(d.first)
		if oldest = max(oldest, age); age > mostAge {
			w.t.Errorf("activity %d was taken for user %d %s before a kill and again after it: its record came too late", d.activity, d.user, age)
		}
	}
	return oldest
}
