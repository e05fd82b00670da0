package deliver_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// metered counts the write units that a table would bill: one for each kilobyte
// begun, for puts and deletes alike, twice in a transaction.
type metered struct {
	table.Table
	units *atomic.Int64
}

func units(it table.Item) int64 { return int64((it.Size() + 1023) / 1024) }

func (m metered) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	m.units.Add(units(it))
	return m.Table.Put(ctx, it, cond)
}

func (m metered) PutAll(ctx context.Context, items []table.Item) error {
	for _, it := range items {
		m.units.Add(units(it))
	}
	return m.Table.PutAll(ctx, items)
}

func (m metered) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	m.units.Add(1)
	return m.Table.Delete(ctx, k, cond)
}

func (m metered) DeleteAll(ctx context.Context, keys []table.Key) error {
	m.units.Add(int64(len(keys)))
	return m.Table.DeleteAll(ctx, keys)
}

// requests sums up the calls of a plan by target and method, as requests of at
// most so many entries each.
func requests(p *faults.Plan, target, op string, entries int) int {
	n := 0
	for _, c := range p.Calls() {
		if c.Target == target && c.Op == op {
			n += max(1, (c.Entries+entries-1)/entries)
		}
	}
	return n
}

func TestCostOfOneActivityToAThousandRecipients(t *testing.T) {
	var writes atomic.Int64
	p := faults.NewPlan()
	w := world.New(t, world.Options{Plan: p, Table: func(tbl table.Table) table.Table { return metered{tbl, &writes} }})
	to := make([]string, 1000)
	for i := range to {
		to[i] = fmt.Sprintf("https://%s.social.example/users/%x/inbox", []string{"mastodon", "pixelfed", "lemmy", "peertube"}[i%4]+fmt.Sprint(i*7919%1000), i*104729)
	}
	id := w.Send(w.Activity("Create"), to...)
	receives := 0
	for w.Poll(queue.Normal) > 0 {
		receives++
	}
	for _, r := range w.States(id) {
		if r.State != activity.Delivered {
			t.Fatalf("%s is %q", r.Target.Inbox, r.State)
		}
	}
	// The caller's own send and record, and Lambda's deletes, of ten at a time.
	sqs := 1 + receives + requests(p, "normal", "SendBatch", 10) + receives
	units := writes.Load() + 1
	t.Logf("%.3f SQS requests and %.3f write units per recipient", float64(sqs)/1000, float64(units)/1000)
	if sqs > 80 || units > 100 {
		t.Errorf("%d SQS requests, at most 80; %d write units, at most 100", sqs, units)
	}
}

func TestCostAndHerdOfAnOutageWithThousandsParked(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	parked := long.Pick(2000, 10_000)
	p := faults.NewPlan()
	w := world.New(t, world.Options{Plan: p})
	w.Servers.Spare()
	w.Servers.Script("down.example", world.Down)
	// Its circuit opens on the first few.
	w.Send(w.Activity("Create"), "https://down.example/0")
	w.Run(2*time.Minute, time.Second)
	if s := phase(t, w, circuit.HostKey("down.example")); s.Phase != circuit.Unhealthy {
		t.Fatalf("the server is %s, want unhealthy", world.Brief(s))
	}
	to := make([]string, 50)
	before := len(p.Calls())
	var ids []activity.ID
	for i := range parked / len(to) {
		for k := range to {
			to[k] = fmt.Sprintf("https://down.example/%d", i*len(to)+k)
		}
		ids = append(ids, w.Send(w.Activity("Create"), to...))
	}
	attempts := len(w.Servers.Got())
	w.Work()
	spots, others := 0, 0
	for _, c := range p.Calls()[before:] {
		switch c.Op {
		case "PutAll":
			spots += c.Entries
		case "Put", "Transact":
			others++
		}
	}
	t.Logf("parking %d took %d writes of spots and %d others", parked, spots, others)
	if spots != parked || others > 0 {
		t.Errorf("%d writes of spots for %d deliveries, and %d others", spots, parked, others)
	}
	if n := len(w.Servers.Got()); n != attempts {
		t.Errorf("%d attempts at a host that is down", n-attempts)
	}

	w.Servers.Script("down.example", nil)
	before = len(p.Calls())
	w.Run(time.Hour, time.Second)
	sends, deletes := 0, 0
	for _, c := range p.Calls()[before:] {
		switch {
		case c.Target == "normal" && c.Op == "SendBatch":
			sends += (c.Entries + 9) / 10
		case c.Op == "DeleteAll":
			deletes += (c.Entries + 24) / 25
		}
	}
	t.Logf("releasing took %d sends and %d deletes", sends, deletes)
	if sends+deletes > parked*2/10 {
		t.Errorf("%d requests to release %d, at most 2 for 10", sends+deletes, parked)
	}
	for _, id := range ids {
		for inbox, r := range w.States(id) {
			if r.State != activity.Delivered {
				t.Fatalf("%s is %q", inbox, r.State)
			}
		}
	}

	// The herd: how many requests reached the host in its worst second, and in
	// the first ones.
	perSecond, first := map[int64]int{}, time.Time{}
	for _, r := range w.Servers.Got() {
		if !r.Accepted {
			continue
		}
		if first.IsZero() {
			first = r.At
		}
		perSecond[r.At.Unix()]++
	}
	worst := 0
	for _, n := range perSecond {
		worst = max(worst, n)
	}
	inMinutes := func(m float64) int {
		n := 0
		for s, k := range perSecond {
			if float64(s-first.Unix()) < m*60 {
				n += k
			}
		}
		return n
	}
	even := float64(1000) / 60
	t.Logf("at most %d a second (1000 spread evenly over a minute are %.0f); %d in the first minute, %d in three, %d in five",
		worst, even, inMinutes(1), inMinutes(3), inMinutes(5))
	if worst > int(math.Ceil(3*even)) {
		t.Errorf("a herd of %d in one second", worst)
	}
	if n := inMinutes(3); n > 400 {
		t.Errorf("%d in the first three minutes after the trial", n)
	}
}

func TestOneProbePerCheck(t *testing.T) {
	w := world.New(t, world.Options{})
	var probes []time.Duration
	w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
		if r.Inbox == "probe:down.example" {
			probes = append(probes, r.At.Sub(world.Start))
		}
		return world.Down(r, n)
	})
	for i := range 100 {
		w.Send(w.Activity("Create"), fmt.Sprintf("https://down.example/%d", i))
	}
	w.Run(3*day, time.Minute)
	want := []time.Duration{time.Minute, 6 * time.Minute, 21 * time.Minute, 46 * time.Minute, 81 * time.Minute, 126 * time.Minute, 126*time.Minute + day, 126*time.Minute + 2*day}
	if !slices.EqualFunc(probes, want, func(a, b time.Duration) bool { return (a - b).Abs() < 3*time.Minute }) {
		t.Errorf("probed after %v, want about %v", probes, want)
	}
}

func TestRateLimitIsKeptHoweverMuchIsSent(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	w := world.New(t, world.Options{})
	limit, err := w.Limits.Set(t.Context(), "small.example", 30, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = circuit.Change(t.Context(), w.Store, circuit.HostKey("small.example"), func(s circuit.State) circuit.State {
		return s.LimitTo(circuit.Default(), limit.PerMinute, w.Clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []activity.ID
	for i := range 120 {
		ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://small.example/%d", i)))
	}
	w.Run(15*time.Minute, time.Second)
	got := w.Servers.Got()
	for i := range got {
		n := 0
		for _, r := range got[i:] {
			if r.At.Sub(got[i].At) < time.Minute {
				n++
			}
		}
		if n > 30+3 {
			t.Fatalf("%d in a minute", n)
		}
	}
	for i, id := range ids {
		w.Expect(id, map[string]activity.State{fmt.Sprintf("https://small.example/%d", i): activity.Delivered})
	}
}

func TestARateIsLearntFromA429(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	w := world.New(t, world.Options{})
	minute, count, refused := int64(0), 0, 0
	w.Servers.Script("small.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if m := r.At.Unix() / 60; m != minute {
			minute, count = m, 0
		}
		if count++; count > 60 {
			refused++
			return outcome.Outcome{Class: outcome.Throttled, Status: 429, RetryAfter: r.At.Add(time.Minute), Err: "answered 429"}
		}
		return world.Status(202)
	}))
	var ids []activity.ID
	for i := range 500 {
		ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://small.example/%d", i)))
	}
	w.Run(90*time.Minute, time.Second)
	for i, id := range ids {
		w.Expect(id, map[string]activity.State{fmt.Sprintf("https://small.example/%d", i): activity.Delivered})
	}
	t.Logf("%d answers of 429 for %d deliveries", refused, len(ids))
	if refused > 40 {
		t.Errorf("%d requests over the limit", refused)
	}
}
