package deliver_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// bill counts what is written: items of deliveries (records, claims, spots taken
// and emptied), and items of servers and limits.
type bill struct {
	table.Table
	own, shared atomic.Int64
	mu          sync.Mutex
	by          map[string]int // own writes whose keys name an activity
}

var activityInKey = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)

func (b *bill) count(ks ...table.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range ks {
		if id := activityInKey.FindString(k.PK + " " + k.SK); id != "" {
			b.by[id]++
		}
		if strings.HasPrefix(k.PK, "S#") || strings.HasPrefix(k.PK, "L#") {
			b.shared.Add(1)
		} else {
			b.own.Add(1)
		}
	}
}

func (b *bill) Put(ctx context.Context, it table.Item, c table.Cond) error {
	b.count(it.Key)
	return b.Table.Put(ctx, it, c)
}

func (b *bill) Delete(ctx context.Context, k table.Key, c table.Cond) error {
	b.count(k)
	return b.Table.Delete(ctx, k, c)
}

func (b *bill) PutAll(ctx context.Context, items []table.Item) error {
	for _, it := range items {
		b.count(it.Key)
	}
	return b.Table.PutAll(ctx, items)
}

func (b *bill) DeleteAll(ctx context.Context, ks []table.Key) error {
	b.count(ks...)
	return b.Table.DeleteAll(ctx, ks)
}

func (b *bill) Transact(ctx context.Context, ops []table.Op) error {
	for _, op := range ops {
		if op.Put != nil {
			b.count(op.Put.Key)
		}
		if op.Delete != nil {
			b.count(*op.Delete)
		}
	}
	return b.Table.Transact(ctx, ops)
}

// billed makes a world whose writes are counted.
func billed(t *testing.T) (*world.World, *bill) {
	b := &bill{by: map[string]int{}}
	return world.New(t, world.Options{Table: func(in table.Table) table.Table { b.Table = in; return b }}), b
}

func limitTo(t *testing.T, w *world.World, host string, perMinute int) {
	t.Helper()
	if _, err := w.Limits.Set(t.Context(), host, perMinute, 0); err != nil {
		t.Fatal(err)
	}
	_, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey(host), func(s circuit.State) circuit.State {
		return s.LimitTo(circuit.Default(), perMinute, w.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// receives runs the world until a queue is empty and nothing is parked under key,
// and returns how many messages were received from the queue.
func receives(t *testing.T, w *world.World, n queue.Name, key string, most time.Duration) (received int) {
	t.Helper()
	end := w.Now().Add(most)
	for checked := w.Now(); w.Now().Before(end); w.Clock.Advance(time.Second) {
		for {
			got := w.Poll(n)
			if received += got; got == 0 {
				break
			}
		}
		if w.Now().Sub(checked) < time.Minute {
			continue
		}
		checked = w.Now()
		if err := w.Checks.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := w.Engine.Queue(n).Depth(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d == (queue.Depth{}) && spots(t, w, key) == 0 {
			break
		}
	}
	return received
}

func TestARateLimitCostsThreeReceivesAndFourWritesADelivery(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const n, rate = 400, 30
	for _, c := range []struct {
		name string
		from queue.Name
		keys int // ordering keys; 0: not ordered
	}{{"unordered", queue.Normal, 0}, {"a key each", queue.Ordered, n}, {"20 keys", queue.Ordered, 20}, {"one key", queue.Ordered, 1}} {
		t.Run(c.name, func(t *testing.T) {
			w, b := billed(t)
			key := circuit.HostKey("slow.example")
			limitTo(t, w, "slow.example", rate)
			var ids []activity.ID
			for i := range n {
				a := w.Activity("Create")
				if c.keys > 0 {
					a.OrderingKey = fmt.Sprint("actor", i%c.keys)
				}
				ids = append(ids, w.Send(a, "https://slow.example/inbox"))
			}
			expansions := 0
			if c.keys > 0 {
				// What the fan-out takes is no part of the limit's costs.
				expansions = n
			}
			start, own, shared := w.Now(), b.own.Load(), b.shared.Load()
			got := receives(t, w, c.from, key, 3*time.Hour) - expansions
			took := w.Now().Sub(start)
			own, shared = b.own.Load()-own, b.shared.Load()-shared
			t.Logf("%d deliveries in %s: %d receives, %d writes of their own, %d of server and limit", n, took, got, own, shared)
			if done := counts(w, ids)[activity.Delivered]; done != n {
				t.Errorf("%v; %d dead letters", counts(w, ids), len(w.DeadLetters.Deaths))
			}
			if got > 3*n {
				t.Errorf("%d receives for %d deliveries", got, n)
			}
			if own > 4*n {
				t.Errorf("%d writes for %d deliveries", own, n)
			}
			if most := int64(n); shared > most/2 {
				t.Errorf("%d writes of the server and its limit for %d deliveries", shared, n)
			}
			perMinute := map[time.Time]int{}
			for _, r := range w.Servers.Got() {
				perMinute[r.At.Truncate(time.Minute)]++
			}
			for at, sent := range perMinute {
				if sent > 2*rate {
					t.Errorf("%d were sent in the minute of %s", sent, at.Format("15:04"))
				}
			}
			if took > n/rate*2*time.Minute {
				t.Errorf("it took %s at %d a minute", took, rate)
			}
			w.Quiet()
		})
	}
}

// What is in no order keeps the scheduled run releasing at a limited server: heads of
// ordered groups, too, which workers may have released a moment before. Such a head gets its
// turn written, and its second message writes nothing.
//
// Which heads are released twice depends on the order of goroutines, so it is tried again if
// none was.
func TestAHeadThatIsReleasedTwiceCostsOneWriteMore(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	for range 5 {
		if releasedTwice(t) > 0 {
			return
		}
	}
	t.Error("no delivery was released twice: this test shows nothing")
}

// releasedTwice counts the deliveries that cost a write more.
func releasedTwice(t *testing.T) (more int) {
	const n, keys, rate = 480, 48, 30
	w, b := billed(t)
	key := circuit.HostKey("slow.example")
	limitTo(t, w, "slow.example", rate)
	var ids []activity.ID
	for i := range n {
		a := w.Activity("Create")
		if i%4 != 0 {
			a.OrderingKey = fmt.Sprint("actor", i%keys)
		}
		ids = append(ids, w.Send(a, "https://slow.example/inbox"))
	}
	clear(b.by)
	for i := 0; i < 3600 && (i < 60 || i%60 > 0 || spots(t, w, key) > 0); i++ {
		if i%60 == 0 {
			if err := w.Checks.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.Work()
		w.Clock.Advance(time.Second)
	}
	if done := counts(w, ids)[activity.Delivered]; done != n {
		t.Errorf("%v; %d dead letters", counts(w, ids), len(w.DeadLetters.Deaths))
	}
	for id, writes := range b.by {
		if writes > 5 {
			t.Errorf("the delivery of %s cost %d writes", id, writes)
		}
		if writes >= 5 {
			more++
		}
	}
	return more
}

func TestOne429LosesNoOrderedDelivery(t *testing.T) {
	const n = 300
	w, b := billed(t)
	key := circuit.HostKey("big.example")
	said := false
	w.Servers.Script("big.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if !said {
			said = true
			return outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "429", RetryAfter: r.At.Add(time.Minute)}
		}
		return world.Status(202)
	}))
	w.Send(w.Activity("Create"), "https://big.example/inbox")
	w.Run(5*time.Minute, 10*time.Second)
	var ids []activity.ID
	for i := range n {
		a := w.Activity("Create")
		a.OrderingKey = fmt.Sprint("actor", i)
		ids = append(ids, w.Send(a, "https://big.example/inbox"))
	}
	start, own := w.Now(), b.own.Load()
	got := receives(t, w, queue.Ordered, key, time.Hour) - n
	own = b.own.Load() - own
	took := w.Now().Sub(start)
	t.Logf("%d deliveries in %s: %d receives, %d writes of their own", n, took, got, own)
	if done := counts(w, ids)[activity.Delivered]; done != n || len(w.DeadLetters.Deaths) > 0 {
		t.Errorf("%v; %d dead letters", counts(w, ids), len(w.DeadLetters.Deaths))
	}
	if got > 3*n || own > 4*n {
		t.Errorf("%d receives and %d writes for %d deliveries", got, own, n)
	}
	if took > 12*time.Minute {
		t.Errorf("the limit that one 429 taught did not grow: it took %s", took)
	}
}

func TestAHeldOrderingKeyDelaysNoOther(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("https://h.example/broken", world.Answers(500))
	a := w.Activity("Create")
	a.OrderingKey = "actor1"
	w.Send(a, "https://h.example/broken")
	for range 60 { // others are fine all the time
		w.Send(w.Activity("Create"), "https://h.example/fine")
		w.Run(time.Hour, time.Minute)
	}
	fails := w.Now().Add(3 * time.Minute)
	w.Servers.Script("https://h.example/stumbles", func(r world.Request, _ int) outcome.Outcome {
		if r.At.Before(fails) {
			return world.Status(500)
		}
		return world.Status(202)
	})
	begin := w.Now()
	b := w.Activity("Create")
	b.OrderingKey = "actor2"
	ids := []activity.ID{w.Send(b, "https://h.example/stumbles")}
	for range 5 {
		b := w.Activity("Create")
		b.OrderingKey = "actor2"
		ids = append(ids, w.Send(b, "https://h.example/fine"))
	}
	for range 30 {
		w.Send(w.Activity("Create"), "https://h.example/fine")
		w.Run(5*time.Second, time.Second)
	}
	w.Run(15*time.Minute, time.Second)
	if got := counts(w, ids); got[activity.Delivered] != len(ids) {
		t.Errorf("%s after the first of its own tries: %v", w.Now().Sub(begin), got)
	}
	// The held one is tried at the intervals of checks, and no more often.
	tries := 0
	for _, r := range w.Servers.Got() {
		if r.Inbox == "https://h.example/broken" {
			tries++
		}
	}
	if tries < 10 || tries > 14 {
		t.Errorf("the held delivery was tried %d times in 60 hours", tries)
	}
}

// An operator's limit on a host that is well is a pace, and no outage that ends with a ramp.
func TestALimitIsAPaceFromTheFirstSecond(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const n, rate = 300, 60
	for name, together := range map[string]bool{"one by one": false, "of one activity": true} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			limitTo(t, w, "well.example", rate)
			w.Run(20*time.Second, time.Second)
			sent := w.Now()
			to := inboxesAt("well.example", n)
			if together {
				w.Send(w.Activity("Create"), to...)
			} else {
				for _, inbox := range to {
					w.Send(w.Activity("Create"), inbox)
				}
			}
			w.Run(7*time.Minute, time.Second)
			before := 0
			for minute := 1; minute <= n/rate; minute++ {
				all := within(w, sent, time.Duration(minute)*time.Minute)
				if got := all - before; got < rate*9/10 && all < n || got > rate+rate/6 {
					t.Errorf("%d in minute %d, at %d a minute", got, minute, rate)
				}
				before = all
			}
		})
	}
}
