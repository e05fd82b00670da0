package simulation

import (
	"fmt"
	"slices"
	"time"
)

// closing is a number of servers that are each down once for some minutes: what is parked for a
// server later would lead to what was forgotten there. What is parked at first expires before the
// first check, which finds the lot empty and closes it, while one other post parks in it.
func (d *drawing) closing() {
	call := 100*time.Millisecond + d.within(200*time.Millisecond)
	at := d.within(d.span).Truncate(minute)
	for i := range 60 + d.IntN(60) {
		at += 2 * minute
		s := Server{Host: fmt.Sprintf("closing%d.example", i)}
		s.Phases = []Phase{{at - minute, Answer{Kind: Refuses}}, {at + 3*minute, Answer{Kind: Accepts}}}
		to := []Inbox{{s.Host, "/inbox"}}
		d.Servers = append(d.Servers, s)
		var all []Inbox
		for j := range 7 {
			all = append(all, Inbox{s.Host, fmt.Sprintf("/u%d/inbox", j)})
		}
		d.add(at+d.within(2*time.Second), Post{Recipients: all, Expires: 80 * time.Second})
		// A post takes some seven calls until it is parked, and the scheduled function some twenty
		// until it has seen the lot empty. It looks again, and then calls fail.
		d.add(at+2*minute+6*call+d.within(16*call), Post{Recipients: to})
		d.Faults.Storms = append(d.Faults.Storms, Span{at + 2*minute + 20*call, at + 2*minute + 32*call})
	}
	d.Latency.Typical = call
	d.Faults.Fail = 0.01
	d.Faults.Until = max(d.Faults.Until, at+hour)
}

// rabble is many servers that answer garbage, in one chunk with others that accept everything.
func (d *drawing) rabble() {
	at := d.within(d.span)
	var all []Inbox
	for i := range 20 + d.IntN(15) {
		s := Server{Host: fmt.Sprintf("rabble%d.example", i)}
		if i < 14 {
			s.Phases = []Phase{{at, Answer{Kind: Rants}}, {at + hour, Answer{Kind: Accepts}}}
		}
		d.Servers, all = append(d.Servers, s), append(all, Inbox{s.Host, "/inbox"})
	}
	for range 1 + d.IntN(3) {
		d.add(at+d.within(hour/2), Post{Recipients: all})
	}
}

// held is a server that accepts everything, except at some of its inboxes: an ordered group whose
// head goes to one of them is held, and waits for longer and longer. Others, which are held for a
// moment only, must not wait as long.
func (d *drawing) held() {
	s := Server{Host: "held.example", Inboxes: map[string][]Phase{}}
	at := d.within(d.span)
	says := Answer{Kind: Says, Status: 500}
	for i := range 2 + d.IntN(4) {
		path := fmt.Sprintf("/h%d/inbox", i)
		from, down := at+d.within(6*hour), d.between(2*minute, hour)
		if i == 0 {
			from, down = at, 3*day
		}
		s.Inboxes[path] = []Phase{{from, says}, {from + down, Answer{Kind: Accepts}}}
		for range 1 + d.IntN(3) {
			d.add(from+d.within(2*minute), Post{Recipients: []Inbox{{s.Host, path}}, Ordering: "held " + path})
		}
	}
	for range 60 {
		d.add(at+d.within(12*hour), Post{Recipients: []Inbox{{s.Host, "/inbox"}}})
	}
	d.Servers = append(d.Servers, s)
	d.lines()
}

// undisturbed lets nothing of ours fail in the story.
func (d *drawing) undisturbed() {
	d.Faults = Faults{}
	d.Acts = slices.DeleteFunc(d.Acts, func(a Act) bool { return a.Do == Kill || a.Do == SetBack || a.Do == RetryDead })
}

// versions of a few subjects are sent to servers that are down for hours, in a story in which
// nothing else fails: when the servers are back, only the last versions are needed.
func (d *drawing) versions() {
	d.undisturbed()
	at := d.within(d.span)
	for i := range 1 + d.IntN(3) {
		down := d.between(30*minute, 2*day)
		s := Server{Host: fmt.Sprintf("news%d.example", i), Phases: []Phase{{at, Answer{Kind: Refuses}}, {at + down, Answer{Kind: Accepts}}}}
		d.Servers = append(d.Servers, s)
		for range 2 + d.IntN(6) {
			d.add(at+d.within(down), Post{Subject: s.Host, Recipients: []Inbox{{s.Host, "/inbox"}}})
		}
	}
}

// halves are batches whose caller has no key, and so cannot try again, while calls fail.
func (d *drawing) halves() {
	s := Server{Host: "halves.example"}
	at := d.within(d.span)
	for range 20 + d.IntN(20) {
		p := Post{Batch: d.n + 1, Recipients: []Inbox{{s.Host, "/inbox"}}}
		when := at + d.within(hour)
		for range 2 + d.IntN(4) {
			d.add(when, p)
		}
	}
	d.Servers = append(d.Servers, s)
	d.Faults.Fail = max(d.Faults.Fail, 0.03)
	d.Faults.Until = max(d.Faults.Until, at+2*hour)
}

// backlog is far more than the rate that an operator has set for a server that accepts everything,
// in a story in which nothing else fails: it shows what waiting costs.
func (d *drawing) backlog() {
	s := Server{Host: "backlog.example"}
	d.Servers = append(d.Servers, s)
	d.undisturbed()
	at := d.within(d.span)
	d.Acts = append(d.Acts, Act{At: at, Do: Limit, Host: s.Host, Rate: 5 + d.IntN(25)})
	lines := d.IntN(3) * 4 // ordering keys; 0: none
	for n := range 80 + d.IntN(80) {
		p := Post{Recipients: []Inbox{{s.Host, "/inbox"}}}
		if lines > 0 {
			p.Ordering = fmt.Sprint("backlog ", n%lines)
		}
		d.add(at+minute+d.within(minute), p)
	}
	d.lines()
}
