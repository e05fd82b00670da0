package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/long"
)

type world struct {
	*testing.T
	engine        *sqlite.Engine
	plan          *Plan
	normal, order queue.Queue // wrapped
	table         table.Table // wrapped
}

func newWorld(t *testing.T, p *Plan) *world {
	t.Helper()
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{
		T: t, engine: e, plan: p,
		normal: Queue(p, "normal", e.Queue(queue.Normal)),
		order:  Queue(p, "ordered", e.Queue(queue.Ordered)),
		table:  Table(p, "table", e.Table()),
	}
}

// bodies returns the messages on a queue. It reads them without the plan, so that the
// plan neither counts nor breaks the read.
func (w *world) bodies(n queue.Name) []string {
	w.Helper()
	got, err := w.engine.Queue(n).Receive(w.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, r := range got {
		all = append(all, r.Body)
	}
	return all
}

func TestEachKindActsAndAnswersAsItSays(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		acts    bool
		err     error
		notSent bool
		dead    bool
	}{
		{0, true, nil, false, false},
		{FailBefore, false, ErrInjected, false, false},
		{Refuse, false, ErrInjected, true, false},
		{ActThenLose, true, ErrInjected, false, false},
		{DieBefore, false, ErrDead, false, true},
		{DieAfter, true, ErrDead, false, true},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			w := newWorld(t, NewPlan(Fault{Call: 2, Kind: c.kind}))
			if err := w.table.Put(t.Context(), table.Item{Key: table.Key{PK: "a", SK: "a"}}, table.Cond{}); err != nil {
				t.Fatalf("call 1: %v", err)
			}
			err := w.normal.Send(t.Context(), queue.Message{Body: "x"})
			if !errors.Is(err, c.err) || queue.NotSent(err) != c.notSent {
				t.Errorf("call 2: error %v (not sent: %t)", err, queue.NotSent(err))
			}
			if w.plan.Dead() != c.dead {
				t.Errorf("dead: %t", w.plan.Dead())
			}
			if acted := len(w.bodies(queue.Normal)) == 1; acted != c.acts {
				t.Errorf("acted: %t", acted)
			}
			_, err = w.table.Get(t.Context(), table.Key{PK: "a", SK: "a"})
			if errors.Is(err, ErrDead) != c.dead {
				t.Errorf("call 3: %v", err)
			}
			w.plan.Revive()
			if _, err := w.table.Get(t.Context(), table.Key{PK: "a", SK: "a"}); err != nil {
				t.Errorf("after revival: %v", err)
			}
		})
	}
}

func TestEveryMethodIsCountedAndBroken(t *testing.T) {
	ctx, key := context.Background(), table.Key{PK: "a", SK: "a"}
	other := table.Key{PK: "a", SK: "b"}
	m := queue.Message{Body: "x"}
	received := func(w *world) (string, error) {
		got, err := w.engine.Queue(queue.Normal).Receive(ctx, queue.ReceiveOptions{Max: 1})
		if err != nil || len(got) != 1 {
			return "", fmt.Errorf("%d messages, error %w", len(got), err)
		}
		return got[0].Handle, nil
	}
	calls := []struct {
		op  string
		run func(*world) error
	}{
		{"Send", func(w *world) error { return w.normal.Send(ctx, m) }},
		{"SendBatch", func(w *world) error { return errors.Join(w.normal.SendBatch(ctx, []queue.Message{m, m})...) }},
		{"Receive", func(w *world) error {
			got, err := w.normal.Receive(ctx, queue.ReceiveOptions{Max: 1})
			if err != nil && got != nil {
				return errors.New("the messages of a lost answer came through")
			}
			return err
		}},
		{"Delete", func(w *world) error {
			handle, err := received(w)
			return errors.Join(err, w.normal.Delete(ctx, handle))
		}},
		{"ChangeVisibility", func(w *world) error {
			handle, err := received(w)
			return errors.Join(err, w.normal.ChangeVisibility(ctx, handle, time.Second))
		}},
		{"Depth", func(w *world) error { _, err := w.normal.Depth(ctx); return err }},
		{"Get", func(w *world) error { _, err := w.table.Get(ctx, key); return err }},
		{"Query", func(w *world) error { _, _, err := w.table.Query(ctx, table.Range{PK: "a"}); return err }},
		{"Put", func(w *world) error { return w.table.Put(ctx, table.Item{Key: key}, table.Cond{}) }},
		{"PutAll", func(w *world) error { return w.table.PutAll(ctx, []table.Item{{Key: key}, {Key: other}}) }},
		{"Transact", func(w *world) error { return w.table.Transact(ctx, []table.Op{{Put: &table.Item{Key: key}}}) }},
		{"Due", func(w *world) error { _, err := w.table.Due(ctx, "s", time.Now(), 1); return err }},
		{"Delete", func(w *world) error { return w.table.Delete(ctx, key, table.Cond{}) }},
		{"DeleteAll", func(w *world) error { return w.table.DeleteAll(ctx, []table.Key{key, other}) }},
	}
	w := newWorld(t, NewPlan())
	for i, c := range calls {
		if err := c.run(w); err != nil {
			t.Fatalf("%s: %v", c.op, err)
		}
		got := w.plan.Calls()
		if len(got) != i+1 || got[i].Op != c.op || got[i].N != i+1 {
			t.Fatalf("after %s the calls are %v", c.op, got)
		}
	}
	for i := range calls {
		w := newWorld(t, NewPlan(Fault{Call: i + 1, Kind: ActThenLose}))
		for j, c := range calls {
			if err := c.run(w); errors.Is(err, ErrInjected) != (i == j) || (i != j && err != nil) {
				t.Errorf("fault at %d: call %d (%s): %v", i+1, j+1, c.op, err)
			}
		}
	}
}

func TestOneEntryOfABatchFails(t *testing.T) {
	w := newWorld(t, NewPlan(Fault{Call: 1, Kind: FailEntry, Entry: 1}))
	errs := w.normal.SendBatch(t.Context(), []queue.Message{{Body: "a"}, {Body: "b"}, {Body: "c"}})
	if len(errs) != 3 || errs[0] != nil || !queue.NotSent(errs[1]) || errs[2] != nil {
		t.Errorf("errors %v", errs)
	}
	if got := w.bodies(queue.Normal); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("sent %q", got)
	}
}

func TestAnEntryOfAGroupStopsItsGroup(t *testing.T) {
	w := newWorld(t, NewPlan(Fault{Call: 1, Kind: FailEntry, Entry: 0}))
	m := func(group, body string) queue.Message {
		return queue.Message{Body: body, OrderingKey: group, DeduplicationKey: body}
	}
	errs := w.order.SendBatch(t.Context(), []queue.Message{m("g", "g1"), m("h", "h1"), m("g", "g2")})
	if !queue.NotSent(errs[0]) || errs[1] != nil || !queue.NotSent(errs[2]) {
		t.Errorf("errors %v", errs)
	}
	if got := w.bodies(queue.Ordered); !slices.Equal(got, []string{"h1"}) {
		t.Errorf("sent %q", got)
	}
}

func TestDyingHalfwayLeavesHalf(t *testing.T) {
	w := newWorld(t, NewPlan(Fault{Call: 1, Kind: DieHalfway}, Fault{Call: 2, Kind: DieHalfway}))
	for i, err := range w.normal.SendBatch(t.Context(), []queue.Message{{Body: "a"}, {Body: "b"}, {Body: "c"}}) {
		if !errors.Is(err, ErrDead) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if got := w.bodies(queue.Normal); !slices.Equal(got, []string{"a"}) {
		t.Errorf("sent %q", got)
	}
	w.plan.Revive()
	a, b := table.Key{PK: "p", SK: "a"}, table.Key{PK: "p", SK: "b"}
	if err := w.table.PutAll(t.Context(), []table.Item{{Key: a}, {Key: b}}); !errors.Is(err, ErrDead) {
		t.Errorf("put all: %v", err)
	}
	got, err := w.engine.Table().Get(t.Context(), a, b)
	if _, first := got[a]; err != nil || len(got) != 1 || !first {
		t.Errorf("%v, error %v, want the first", got, err)
	}
}

func TestAnAnswerOnItsWayIsLostWhenTheProcessDies(t *testing.T) {
	p := NewPlan(Fault{Call: 2, Kind: DieBefore})
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- p.Do("x", "slow", func() error {
			close(begun)
			<-release
			return nil
		})
	}()
	<-begun
	if err := p.Do("x", "last", func() error { return nil }); !errors.Is(err, ErrDead) {
		t.Errorf("the last call: %v", err)
	}
	close(release)
	if err := <-done; !errors.Is(err, ErrDead) {
		t.Errorf("the call under way: %v", err)
	}
}

func TestTransportLosesAnswers(t *testing.T) {
	served := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		_, _ = io.WriteString(w, "ok")
	}))
	defer srv.Close()
	client := &http.Client{Transport: Transport(NewPlan(Fault{Call: 1, Kind: FailBefore}, Fault{Call: 2, Kind: ActThenLose}), "remote", http.DefaultTransport)}
	for i, want := range []int{0, 1, 2} {
		res, err := client.Get(srv.URL)
		if errors.Is(err, ErrInjected) != (i < 2) || served != want {
			t.Errorf("request %d: error %v, served %d", i+1, err, served)
		}
		if err == nil {
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSweepVisitsEveryCallAndKind sweeps a careful piece of work (claim, send,
// confirm), and checks that a message is sent at least once whatever goes wrong.
func TestSweepVisitsEveryCallAndKind(t *testing.T) {
	fired := make(map[string]bool)
	key := table.Key{PK: "job", SK: "job"}
	Sweep(t, func(t *testing.T, p *Plan) {
		w := newWorld(t, p)
		work := func() error {
			if got, err := w.table.Get(t.Context(), key); err != nil || len(got) > 0 {
				return err
			}
			if err := errors.Join(w.normal.SendBatch(t.Context(), []queue.Message{{Body: "a"}, {Body: "b"}})...); err != nil {
				return err
			}
			return w.table.Put(t.Context(), table.Item{Key: key}, table.Cond{})
		}
		for range 2 {
			if work() == nil {
				break
			}
			p.Revive()
		}
		got := w.bodies(queue.Normal)
		if !slices.Contains(got, "a") || !slices.Contains(got, "b") {
			t.Errorf("sent %q, want both", got)
		}
		for _, f := range p.faults {
			fired[fmt.Sprint(f, f.Entry)] = p.Fired() == 1
		}
	})
	// 3 calls of 5 kinds, and of the batch also half of it and its two entries.
	want := 3*len(Kinds) + 1 + 2
	if !long.On() {
		want = 3
	}
	if len(fired) != want {
		t.Errorf("%d faults, want %d: %v", len(fired), want, fired)
	}
	for f, ok := range fired {
		if !ok {
			t.Errorf("%s did not fire", f)
		}
	}
}

// TestThePartsOfASweepAreTheSweep: each call is broken in one part, and in no other.
func TestThePartsOfASweepAreTheSweep(t *testing.T) {
	broken := map[string]int{}
	for n := range 2 {
		s := Sweeper{Kinds: []Kind{FailBefore}, Part: Part{N: n, Of: 2}}
		s.Sweep(t, func(t *testing.T, p *Plan) {
			w := newWorld(t, p)
			for _, key := range []string{"a", "b", "c"} {
				if err := w.table.Put(t.Context(), table.Item{Key: table.Key{PK: key, SK: key}}, table.Cond{}); err != nil {
					broken[key]++
				}
			}
		})
	}
	if want := map[string]int{"a": 1, "b": 1, "c": 1}; !maps.Equal(broken, want) {
		t.Errorf("broken %v, want %v", broken, want)
	}
	for _, s := range []string{"2/2", "-1/2", "1", "0/2 ", "00/2", "x"} {
		if p, err := ParsePart(s); err == nil {
			t.Errorf("%q is taken as %+v", s, p)
		}
	}
}

// TestASweepBreaksCallsThatChangePlaces: goroutines make calls of two methods side by side,
// so the order of all calls differs from run to run.
func TestASweepBreaksCallsThatChangePlaces(t *testing.T) {
	runs := 0
	Sweep(t, func(t *testing.T, p *Plan) {
		w := newWorld(t, p)
		runs++
		calls := []func() error{
			func() error {
				return w.table.Put(t.Context(), table.Item{Key: table.Key{PK: "a", SK: "a"}}, table.Cond{})
			},
			func() error {
				return errors.Join(w.normal.SendBatch(t.Context(), []queue.Message{{Body: "a"}, {Body: "b"}})...)
			},
		}
		if runs%2 == 0 {
			slices.Reverse(calls)
		}
		for _, call := range calls {
			if err := call(); err != nil && !errors.Is(err, ErrInjected) && !errors.Is(err, ErrDead) {
				t.Error(err)
			}
			p.Revive()
		}
	})
}
