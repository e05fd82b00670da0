package deliver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// failing fails calls for a time: all of a table that is out of reach, or the writes of table and
// queues on a disk that is full.
type failing struct {
	mu       sync.Mutex
	from, to time.Time
	first    func(faults.Call) bool // if set, the time begins with this call
	lasts    time.Duration          // from then on
	full     bool
	all      bool                   // the queues are away with the table
	about    func(faults.Call) bool // if set, only these
	failed   atomic.Int64
}

func (f *failing) Intercept(_ context.Context, c faults.Call, act func(faults.Fault) error) error {
	reads := slices.Contains([]string{"Get", "Query", "Due", "Depth"}, c.Op)
	from, to := f.times(c)
	if now := time.Now(); now.Before(from) || !now.Before(to) || f.full && reads || !f.full && !f.all && c.Target != "table" || f.about != nil && !f.about(c) {
		return act(faults.Fault{})
	}
	f.failed.Add(1)
	if f.full {
		return fmt.Errorf("%s.%s: %w", c.Target, c.Op, table.ErrDiskFull)
	}
	return fmt.Errorf("%s.%s: the table is away", c.Target, c.Op)
}

// times returns from when to when calls fail.
func (f *failing) times(c faults.Call) (from, to time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first != nil && f.first(c) {
		f.from, f.to, f.first = time.Now(), time.Now().Add(f.lasts), nil
	}
	return f.from, f.to
}

// slowly answers for the scripted servers, after up to 5 s.
func slowly(w **world.World) world.SenderFunc {
	return func(ctx context.Context, a activity.Activity) protocol.Attempt {
		try := (*w).Servers.Prepare(ctx, a)
		return func(ctx context.Context, to activity.Target, n int) outcome.Outcome {
			time.Sleep(time.Duration(len(to.Inbox)*len(a.Body)%50) * 100 * time.Millisecond) // virtual
			return try(ctx, to, n)
		}
	}
}

// living is a process that outlives its invocations, as `up` does.
func living(t *testing.T, e engines.Engine, f *failing) (w *world.World, run func(until func() bool, longest time.Duration)) {
	w = world.New(t, world.Options{
		Engine: e, Now: time.Now, Protocol: slowly(&w), Limits: deliver.Limits{PerQueue: 50, Quiet: time.Second},
		Table: func(in table.Table) table.Table { return faults.Table(f, "table", in) },
	})
	queues := map[queue.Name]queue.Queue{}
	for _, n := range queue.Names {
		queues[n] = faults.Queue(f, string(n), w.Engine.Queue(n))
	}
	c := w.Config()
	c.Queues, c.Writable, c.Worker = func(n queue.Name) deliver.Queue { return queues[n] }, w.Store.Writable, "this."
	w.Deliver = deliver.New(c)
	return w, func(until func() bool, longest time.Duration) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, n := range []queue.Name{queue.Normal, queue.Ordered} {
			m := w.Mapping(n)
			m.Queue, m.Ready = queues[n], w.Deliver.Ready
			wg.Go(func() { m.Run(ctx) })
		}
		for began := time.Now(); !until() && time.Since(began) < longest; {
			time.Sleep(time.Minute) // virtual
			_ = w.Checks.Run(ctx)   // fails while the table does
		}
		cancel()
		wg.Wait()
	}
}

// TestNothingIsSentTwiceAfterTheTableCouldNotBeWritten, whatever was under way when writes
// began to fail, though that takes longer than claims and visibility timeouts last. The
// process knows the outcomes.
func TestNothingIsSentTwiceAfterTheTableCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	maps := []engines.Engine{engines.Maps(), engines.MapsFIFO()}
	// The faults come before the engine, so the files show little more in three times the time.
	for _, e := range long.Pick(maps, append(maps, engines.Embedded(), engines.EmbeddedFIFO())) {
		for what, full := range map[string]bool{"the disk is full": true, "the table is away": false} {
			for _, lasts := range []time.Duration{41 * time.Second, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%s/%s/%s", e.Name, what, lasts), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { withoutSecondSend(t, e, full, lasts) })
				})
			}
		}
	}
}

func withoutSecondSend(t *testing.T, e engines.Engine, full bool, lasts time.Duration) {
	f := &failing{full: full}
	w, run := living(t, e, f)
	w.Servers.Script("stumbles.example", func(r world.Request, n int) outcome.Outcome {
		if r.At.Before(f.to.Add(time.Minute)) {
			return world.Status(500)
		}
		return world.Status(202)
	})
	w.Servers.Script("refuses.example", world.Answers(404))
	want := map[activity.ID]map[string]activity.State{}
	for i := range 60 {
		a := w.Activity("Create")
		to := map[string]activity.State{
			"https://stumbles.example/1": activity.Delivered, "https://refuses.example/1": activity.Failed,
		}
		for k := range 8 {
			to[fmt.Sprintf("https://host%d.example/%d", k, i)] = activity.Delivered
		}
		if i%4 == 0 {
			a.OrderingKey = fmt.Sprint("key", i%3)
			delete(to, "https://stumbles.example/1") // which would hold up the others for long
		}
		inboxes := make([]string, 0, len(to))
		for inbox := range to {
			inboxes = append(inboxes, inbox)
		}
		slices.Sort(inboxes)
		want[w.Send(a, inboxes...)] = to
	}
	f.from = time.Now().Add(2 * time.Second)
	f.to = f.from.Add(lasts)
	atEnd, late, logged := 0, 0, 0
	time.AfterFunc(2*time.Second+lasts/2, func() {
		atEnd, logged = len(w.Servers.Got()), w.Logged()
		time.AfterFunc(lasts/2-time.Millisecond, func() { late, logged = len(w.Servers.Got()), w.Logged()-logged })
	})
	done := func() bool {
		for id, to := range want {
			states := w.States(id)
			for inbox, state := range to {
				if states[inbox].State != state {
					return false
				}
			}
		}
		return true
	}
	run(done, 26*time.Hour)
	if late != atEnd {
		t.Errorf("%d requests were made while nothing could be recorded", late-atEnd)
	}
	// The log may be on the same disk.
	if logged > len(want) {
		t.Errorf("the log got %d lines in the second half of %s, want at most one of each activity", logged, lasts)
	}
	accepted := w.Servers.Accepted()
	for id, to := range want {
		w.Expect(id, to)
		for inbox, n := range accepted[id] {
			if n != 1 {
				t.Errorf("%s accepted %s %d times, want once", inbox, id, n)
			}
		}
	}
}

// TestAUnitThatCannotBeRecordedHoldsUpNoOther: the table takes all other writes, so the fault
// is the unit's own, and its message comes back.
func TestAUnitThatCannotBeRecordedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{from: time.Now().Add(time.Second), to: time.Now().Add(time.Hour)}
		w, run := living(t, engines.Maps(), f)
		w.Servers.Script("bad.example", func(world.Request, int) outcome.Outcome {
			time.Sleep(2 * time.Second) // virtual
			return world.Status(202)
		})
		bad := w.Send(w.Activity("Create"), "https://bad.example/1")
		f.about = func(c faults.Call) bool { return c.Op == "Put" && strings.Contains(c.About, string(bad)) }
		began := time.Now()
		time.AfterFunc(10*time.Second, func() {
			for i := range 100 {
				w.Send(w.Activity("Create"), fmt.Sprintf("https://good%d.example/1", i))
			}
		})
		run(func() bool { return time.Since(began) >= time.Minute }, time.Hour)
		for _, r := range w.Servers.Got() {
			if took := r.At.Sub(began); took > 40*time.Second {
				t.Errorf("%s got %s %s after the begin, want within 30 s of its enqueue at 10 s, while the other unit is tried for a minute", r.Inbox, r.Activity.ID, took)
			}
		}
		if n := len(w.Servers.Got()); n != 101 || f.failed.Load() == 0 {
			t.Errorf("%d requests and %d failed writes, want 101 and some", n, f.failed.Load())
		}
	})
}

// TestWhatWasReceivedComesBackSoonAfterTableAndQueuesWereAway, as on a database that has both,
// whichever call is the first to fail. The messages cannot be handed back meanwhile, and their
// visibility timeout is six minutes. A delivery that finds no place comes back after 2 minutes.
func TestWhatWasReceivedComesBackSoonAfterTableAndQueuesWereAway(t *testing.T) {
	t.Parallel()
	firsts := map[string]func() func(faults.Call) bool{}
	for n := 1; n <= 400; n += 57 {
		firsts[fmt.Sprint("call ", n)] = nth(n, func(faults.Call) bool { return true })
	}
	for _, of := range []string{"ordered.Receive", "ordered.Delete", "normal.Receive", "normal.Delete"} {
		for n := 1; n <= 3; n += 2 {
			firsts[fmt.Sprint(of, " ", n)] = nth(n, func(c faults.Call) bool { return c.Target+"."+c.Op == of })
		}
	}
	firsts["event"] = nth(1, func(c faults.Call) bool { return c.Op == "Put" && strings.HasPrefix(c.About, "E#") })
	for _, e := range []engines.Engine{engines.Maps(), engines.MapsFIFO()} {
		for what, first := range firsts {
			t.Run(e.Name+"/"+what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { withoutLongWait(t, e, first()) })
			})
		}
	}
}

// nth makes functions that report whether a call is the nth of a kind.
func nth(n int, of func(faults.Call) bool) func() func(faults.Call) bool {
	return func() func(faults.Call) bool {
		left := n
		return func(c faults.Call) bool {
			if of(c) {
				left--
			}
			return left == 0
		}
	}
}

func withoutLongWait(t *testing.T, e engines.Engine, first func(faults.Call) bool) {
	f := &failing{all: true, lasts: 20 * time.Second}
	w, run := living(t, e, f)
	w.Servers.Script("host12.example", world.Answers(404))
	for i := range 200 {
		a := w.Activity("Create")
		if i%4 == 0 {
			a.OrderingKey = fmt.Sprint("key", i%12) // some have more messages than a receive brings
		}
		w.Send(a, fmt.Sprintf("https://host%d.example/1", i%20))
	}
	f.first = first
	run(func() bool { return len(w.Servers.Got()) >= 200 }, 10*time.Minute)
	if f.failed.Load() == 0 {
		t.Fatal("no call failed")
	}
	got := w.Servers.Got()
	if len(got) != 200 {
		t.Errorf("%d requests, want 200", len(got))
	}
	for _, r := range got {
		if took := r.At.Sub(f.to); took > 4*time.Minute {
			t.Errorf("%s got %s %s after the end of the outage, want less than 4 minutes", r.Inbox, r.Activity.ID, took)
		}
	}
}

// TestAnInvocationThatEndsKeepsOutcomesNoLonger: its process sleeps then. Until its end it
// records what the table takes again.
func TestAnInvocationThatEndsKeepsOutcomesNoLonger(t *testing.T) {
	for lasts, want := range map[time.Duration]activity.State{20 * time.Second: activity.Delivered, 2 * time.Minute: activity.Queued} {
		t.Run(lasts.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{from: time.Now().Add(time.Second)}
				f.to = f.from.Add(lasts)
				var w *world.World
				w = world.New(t, world.Options{
					Engine: engines.Maps(), Now: time.Now, Protocol: slowly(&w),
					Table: func(in table.Table) table.Table { return faults.Table(f, "table", in) },
				})
				c := w.Config()
				c.Writable = w.Store.Writable
				w.Deliver = deliver.New(c)
				w.Servers.Script("slow.example", func(world.Request, int) outcome.Outcome {
					time.Sleep(2 * time.Second) // virtual
					return world.Status(202)
				})
				id := w.Send(w.Activity("Create"), "https://slow.example/1")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				m := w.Mapping(queue.Normal)
				if _, err := m.PollOnce(ctx); err != nil {
					t.Fatal(err)
				}
				if ctx.Err() != nil {
					t.Error("the invocation took longer than it may")
				}
				w.Expect(id, map[string]activity.State{"https://slow.example/1": want})
				time.Sleep(5 * time.Second) // virtual: whoever asks whether the table takes writes
			})
		})
	}
}
