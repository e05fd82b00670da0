package simulation

import (
	"fmt"
	"slices"
	"time"
)

// closing is a number of servers that are down for half an hour, each once: whatever is
// parked for a server later would lead to what is forgotten there. What is parked at first
// expires before the first check, which finds the lot empty and closes it, while others
// park in it.
func (d *drawing) closing() {
	call := 100*time.Millisecond + d.within(200*time.Millisecond)
	at := d.within(d.span).Truncate(minute)
	for i := range 20 + d.IntN(20) {
		at += 2 * minute
		s := Server{Host: fmt.Sprintf("closing%d.example", i)}
		s.Phases = []Phase{{at - minute, Answer{Kind: Refuses}}, {at + hour/2, Answer{Kind: Accepts}}}
		to := []Inbox{{s.Host, "/inbox"}}
		d.Servers = append(d.Servers, s)
		for range 7 {
			d.add(at+d.within(3*time.Second), Post{Recipients: to, Expires: 80 * time.Second})
		}
		for range 5 {
			// A post takes some ten calls until it is parked, and the scheduled function some
			// twenty until it has seen the lot empty.
			d.add(at+2*minute-10*call+d.within(25*call), Post{Recipients: to})
		}
	}
	d.Latency.Typical = call
	d.Faults.Fail = max(d.Faults.Fail, 0.06)
	d.Faults.Until = max(d.Faults.Until, at+hour)
}

// rabble is a crowd of servers that answer garbage, in one chunk with others that take
// everything.
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

// held is a server that takes everything but at some of its inboxes: an ordered group
// whose head goes to one of them is held, and so waits for longer and longer. Others,
// which are held for a moment only, are not to wait as long.
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

// backlog is far more than the rate that an operator has set for a server that takes
// everything, in a story in which nothing else goes wrong: it shows what waiting costs.
func (d *drawing) backlog() {
	s := Server{Host: "backlog.example"}
	d.Servers = append(d.Servers, s)
	d.Faults = Faults{}
	d.Acts = slices.DeleteFunc(d.Acts, func(a Act) bool { return a.Do == Kill || a.Do == SetBack || a.Do == RetryDead })
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
