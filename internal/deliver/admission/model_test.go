package admission

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/testkit/property"
)

// TestAPlanKeepsItsBoundsAndLeavesNobodyBehind: whatever comes in whatever order, no bound is
// passed, nobody waits who could begin, and everybody begins, goes back or gives up, once.
func TestAPlanKeepsItsBoundsAndLeavesNobodyBehind(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		small := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
		b := Bounds{Places: small("places", 12), Spare: rapid.IntRange(0, 4).Draw(t, "spare"), Computing: small("computing", 12), PerHost: small("host", 4), PerHostMost: small("most", 9), Waiting: small("waiting", 9), Bytes: rapid.IntRange(0, 9).Draw(t, "bytes")}
		m := &model{plan: newPlan(b), fates: map[*Attempt]int{}}
		activity := rapid.SampledFrom([]string{"a", "b", "c"})
		lanes := []Lane{{}, {Name: "sipher", Places: 3, PerHost: 2}}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				site := fmt.Sprint("s", rapid.IntRange(0, 2).Draw(t, "site"))
				host := fmt.Sprint("h", rapid.IntRange(0, 2).Draw(t, "host"), site)
				a := &Attempt{
					Activity: activity.Draw(t, "activity"), Lane: rapid.SampledFrom(lanes).Draw(t, "lane"), Site: site, Host: host,
					Inbox: fmt.Sprint("i", rapid.IntRange(0, 1).Draw(t, "inbox"), host), Alone: rapid.IntRange(0, 4).Draw(t, "alone") == 0,
					Receives: rapid.IntRange(1, 4).Draw(t, "receives"),
				}
				if n := len(m.open); n > 0 && rapid.Bool().Draw(t, "with a ticket") {
					a.Ticket = m.open[rapid.IntRange(0, n-1).Draw(t, "which")]
				}
				m.waiting = append(m.waiting, a)
				m.plan.enter(a, time.Duration(rapid.IntRange(0, 1).Draw(t, "until"))*(m.now+time.Minute), m.now)
			},
			"sign": func(t *rapid.T) {
				if n := len(m.under); n > 0 {
					m.plan.signed(m.under[rapid.IntRange(0, n-1).Draw(t, "which")], m.now)
				}
			},
			"leave": func(t *rapid.T) {
				if n := len(m.under); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					a := m.under[i]
					m.under = append(m.under[:i], m.under[i+1:]...)
					m.plan.leave(a, rapid.SampledFrom([]Result{Accepted, Accepted, Failed, Unsent}).Draw(t, "result"), m.now)
				}
			},
			"withdraw": func(t *rapid.T) {
				if n := len(m.waiting); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					a := m.waiting[i]
					if !m.plan.withdraw(a, m.now) {
						t.Fatal("an attempt that waits cannot be withdrawn")
					}
					m.fates[a]++
					m.waiting = append(m.waiting[:i], m.waiting[i+1:]...)
				}
			},
			"time passes": func(t *rapid.T) {
				m.now += time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond
				m.plan.advance(m.now)
			},
			"take": func(t *rapid.T) {
				tk := m.plan.take(activity.Draw(t, "activity"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "sender"), rapid.IntRange(0, 5).Draw(t, "recipients"), rapid.SampledFrom([]int{0, 0, 1, 3, 9}).Draw(t, "bytes"), m.now)
				if tk != nil {
					m.tickets = append(m.tickets, tk)
				}
			},
			"end": func(t *rapid.T) {
				if n := len(m.tickets); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					m.plan.abandon(m.tickets[i])
					m.tickets = append(m.tickets[:i], m.tickets[i+1:]...)
				}
			},
			"": m.check,
		})
		m.finish(t)
	})
}

// model is what has to be true of a plan, kept apart from it.
type model struct {
	plan           *plan
	now            time.Duration
	waiting, under []*Attempt
	fates          map[*Attempt]int
	tickets, open  []*Ticket
}

// settle records what the plan has decided.
func (m *model) settle() {
	p := m.plan
	moved := map[*Attempt]bool{}
	for _, a := range append(p.started, p.sent...) {
		m.fates[a]++
		moved[a] = true
	}
	m.under = append(m.under, p.started...)
	still := m.waiting[:0]
	for _, a := range m.waiting {
		if !moved[a] {
			still = append(still, a)
		}
	}
	m.waiting = still
	p.todo = todo{}
	m.open = m.open[:0]
	for _, t := range m.tickets {
		if t.at == nil {
			m.open = append(m.open, t)
		}
	}
}

func (m *model) check(t *rapid.T) {
	m.settle()
	p, b := m.plan, m.plan.b
	want := func(what string, got, want int) {
		if got != want {
			t.Fatalf("%s: %d, want %d", what, got, want)
		}
	}
	most := func(what string, got, most int) {
		if got > most {
			t.Fatalf("%s: %d, want %d at most", what, got, most)
		}
	}
	old, computing, firsts := 0, [2]int{}, map[*site]bool{}
	hosts, inboxes, lanes := map[*host]int{}, map[string]int{}, map[Lane]int{}
	for _, a := range m.under {
		hosts[a.host]++
		lanes[a.Lane]++
		inboxes[a.Lane.Name+a.Inbox]++
		if a.computes {
			computing[a.class]++
		}
		if a.young == nil && !a.computes {
			old++
		}
		if a.class == prompt {
			firsts[a.host.site] = true
		}
	}
	want("attempts under way", p.under, len(m.under))
	want("young attempts", p.young.Len()+computing[0]+computing[1], len(m.under)-old)
	want("attempts that compute", p.computing[others], computing[others])
	most("attempts that compute", computing[0]+computing[1], b.Computing)
	most("attempts that compute for others", computing[others], part(b.Computing))
	want("first attempts of sites at prompt hosts", p.firsts, len(firsts))
	want("attempts beyond the places", int(p.spare.Load()), max(0, p.under-b.Places))
	most("attempts that take places", p.under-p.firsts, b.Places)
	most("attempts under way", p.under, b.Places+b.Spare)
	for h, n := range hosts {
		want("attempts at "+h.name, h.under, n)
		most("attempts at "+h.name, n, h.mostWindow)
	}
	for l, n := range lanes {
		if want("attempts of a lane", p.lanes[l].under, n); l.Places > 0 {
			most("attempts of a lane", n, l.Places)
		}
	}
	for _, a := range m.under {
		if n := inboxes[a.Lane.Name+a.Inbox]; a.Alone && n > 1 {
			t.Fatalf("%d attempts at %s, one of which wanted to be alone", n, a.Inbox)
		}
	}
	used := 0
	for _, tk := range m.open {
		used += tk.left
	}
	r := &p.memory
	want("recipients in memory", r.used, used)
	bytes, queued := 0, 0
	for _, tk := range m.tickets {
		switch {
		case tk.holds:
			bytes += tk.bytes
		case tk.at != nil && tk.list == &r.large:
			queued += tk.bytes
		}
	}
	want("bytes of large messages", r.bytes, bytes)
	want("bytes that wait", r.queued, queued)
	if b.Bytes > 0 {
		most("bytes of large messages", bytes, b.Bytes+b.Bytes/4)
	}
	if r.large.Len() > 0 && bytes == 0 {
		t.Fatal("a large message waits, and none is in memory")
	}
	if r.busy.Len() > 0 && r.used < b.Waiting {
		t.Fatalf("a message waits for memory, of which %d of %d is used", r.used, b.Waiting)
	}
	n := 0
	for c, hosts := range p.waiting {
		for i, h := range hosts {
			want("the class of "+h.name, int(h.class), c)
			want("where "+h.name+" is among those that wait", h.at, i)
			n += h.waits
		}
	}
	want("attempts that wait", n, len(m.waiting))
	want("attempts that wait, by class", p.classes[prompt].waits+p.classes[others].waits, len(m.waiting))
	for _, a := range m.waiting {
		if why := p.stuck(a); why == none && p.fits(a) && a.inbox.waiting.Front() == a.element {
			t.Fatalf("an attempt at %s waits, and could begin", a.Host)
		}
		if m.fates[a] != 0 {
			t.Fatal("an attempt that waits has begun, or gone back")
		}
	}
	for a, n := range m.fates {
		want("fates of an attempt at "+a.Host, n, 1)
	}
}

// finish ends all that is under way, and waits for the rest to begin or to go back.
func (m *model) finish(t *rapid.T) {
	for range 1000 {
		for _, a := range m.under {
			m.plan.signed(a, m.now)
			m.plan.leave(a, Accepted, m.now)
		}
		for _, tk := range m.tickets {
			m.plan.abandon(tk)
		}
		m.under, m.tickets = nil, nil
		m.now += time.Second
		m.plan.advance(m.now)
		m.settle()
	}
	p := m.plan
	if len(m.waiting)+len(p.waiting[prompt])+len(p.waiting[others])+p.under+p.firsts > 0 {
		t.Fatalf("%d attempts wait, %d hosts, %d under way", len(m.waiting), len(p.waiting[prompt])+len(p.waiting[others]), p.under)
	}
	if len(p.workloads)+p.idle.Len() > 0 {
		t.Fatalf("%d activities are kept, of which nothing is left", len(p.workloads))
	}
	for _, h := range p.hosts {
		if len(h.inboxes) > 0 || h.at >= 0 {
			t.Fatalf("%s keeps %d inboxes", h.name, len(h.inboxes))
		}
	}
}
