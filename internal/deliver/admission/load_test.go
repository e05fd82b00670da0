package admission

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// ordinary and few are the bounds of `up` on two processors, as a rule and with ulimit -n 64.
var ordinary, few = ForHundreds(768, 8).Shared(2, 50), ForHundreds(6, 8).Shared(2, 50)

// last is when the last of all deliveries began, and the most receives that one had.
func (p *process) last(t *testing.T) (at time.Duration, receives int) {
	t.Helper()
	for _, d := range p.all {
		if !d.begun {
			t.Fatalf("a delivery to %s has not begun after %s and %d receives", d.to.name, p.now, d.receives)
		}
		at, receives = max(at, d.began), max(receives, d.receives)
	}
	return at, receives
}

// TestAHostThatFreesPlacesKeepsItsFullRate to the last of 20,000 inboxes, and nothing goes back to
// its queue for want of a place.
func TestAHostThatFreesPlacesKeepsItsFullRate(t *testing.T) {
	p := newProcess(1, ordinary)
	var to []*server
	for i := range 20_000 {
		if i < 2 {
			name := fmt.Sprint("well", i)
			to = append(to, &server{name: name, site: name, handshake: hello, answer: steady(200*time.Millisecond, Accepted)})
			continue
		}
		to = append(to, to[i%2])
	}
	p.deliver(50, "", to...)
	p.run(5 * time.Minute)
	if at, receives := p.last(t); at > 20*time.Second || receives > 1 {
		t.Errorf("the last began after %s, and one was received %d times; want 20s and once", at, receives)
	}
}

// TestWhatASlowHostHasNoPlaceForComesBackInTime: 2,000 deliveries to a host that takes each after
// 14 seconds keep it busy to the last.
func TestWhatASlowHostHasNoPlaceForComesBackInTime(t *testing.T) {
	p := newProcess(1, ordinary)
	slow := &server{name: "slow", site: "slow", handshake: hello, answer: steady(14*time.Second, Accepted)}
	to := make([]*server, 2000)
	for i := range to {
		to[i] = slow
	}
	p.deliver(1, "", to...)
	p.run(30 * time.Minute)
	if at, most := p.last(t); at > 5*time.Minute || most > receives {
		t.Errorf("the last began after %s, and one was received %d times; want 5m and %d times", at, most, receives)
	}
}

// TestHostsThatNobodyHasMetAreMetAtOnce: 5,000 recipients at a thousand hosts that are well.
func TestHostsThatNobodyHasMetAreMetAtOnce(t *testing.T) {
	p := newProcess(1, ordinary)
	var to []*server
	for i := range 1000 {
		name := fmt.Sprint("new", i)
		s := &server{name: name, site: name, handshake: hello, answer: steady(200*time.Millisecond, Accepted)}
		to = append(to, s, s, s, s, s)
	}
	p.deliver(50, "", to...)
	p.run(5 * time.Minute)
	if at, receives := p.last(t); at > 5*time.Second || receives > 1 {
		t.Errorf("the last began after %s, and one was received %d times; want 5s and once", at, receives)
	}
}

// TestWhatWaitedWhileNothingWasSignedBeginsSoonAfterwards: nobody's place was held by a host.
func TestWhatWaitedWhileNothingWasSignedBeginsSoonAfterwards(t *testing.T) {
	p := newProcess(1, ordinary)
	p.away = 40 * time.Second
	var to []*server
	for i := range 20 {
		name := fmt.Sprint("well", i)
		to = append(to, &server{name: name, site: name, handshake: hello, answer: steady(20*time.Millisecond, Accepted)})
	}
	for i := range 250 {
		p.at(time.Duration(i)*100*time.Millisecond, func() { p.deliver(40, "", to...) })
	}
	p.run(30 * time.Minute)
	if at, most := p.last(t); at > p.away+30*time.Second || most > receives {
		t.Errorf("the last began %s after signatures, and one was received %d times; want 30s and %d times", at-p.away, most, receives)
	}
}

// TestAHostThatRefusesSlowlyDelaysNobody: a host that answers 404 opens no circuit and gets no more
// places, and none of its attempts is old.
func TestAHostThatRefusesSlowlyDelaysNobody(t *testing.T) {
	for _, hosts := range []int{1, 60} {
		p := newProcess(1, ordinary)
		well := &server{name: "well", site: "well", handshake: hello, answer: steady(50*time.Millisecond, Accepted)}
		p.deliver(1, "", well)
		var to []*server
		for i := range hosts {
			s := &server{name: fmt.Sprint("refuses", i), site: "refuses", handshake: hello, answer: steady(900*time.Millisecond, Unsent)}
			to = append(to, slices.Repeat([]*server{s}, max(5, 50/hosts))...)
		}
		for i := range 60 {
			p.at(time.Duration(i)*time.Second, func() { p.deliver(50, "", to...) })
			p.at(time.Duration(i)*time.Second+time.Second/2, func() { p.deliver(1, "known", well) })
		}
		p.run(90 * time.Second)
		for _, d := range p.all {
			if waited := d.began - d.due; d.watched == "known" && (!d.begun || waited > time.Second) {
				t.Errorf("%d hosts: a delivery due at %s to a host that is well began (%v) after %s, want 1s", hosts, d.due, d.begun, waited)
				break
			}
		}
	}
}

// TestWhatAHostRefusesForHoursIsReceivedFewTimes: a host that answers 404 after 14 seconds is busy for
// 97 minutes with 2,500 deliveries. Each came back every 15 minutes, nine times at most. If the host
// is well after ten minutes, the last delivery is there soon after.
func TestWhatAHostRefusesForHoursIsReceivedFewTimes(t *testing.T) {
	const n = 2500
	for name, c := range map[string]struct{ wellAfter, last time.Duration }{
		"for hours":       {24 * time.Hour, 100 * time.Minute},
		"for ten minutes": {10 * time.Minute, 20 * time.Minute},
	} {
		p := newProcess(1, ordinary)
		s := &server{name: "refuses", site: "refuses", handshake: hello}
		s.answer = func(int) (time.Duration, Result) {
			if p.now > c.wellAfter {
				return 200 * time.Millisecond, Accepted
			}
			return 14 * time.Second, Unsent
		}
		p.deliver(50, "", slices.Repeat([]*server{s}, n)...)
		p.run(3 * time.Hour)
		at, most := p.last(t)
		all := 0
		for _, d := range p.all {
			all += d.receives
		}
		if at > c.last || most > receives+2 || all > n*9/2 {
			t.Errorf("%s: the last began after %s, and one was received %d times, all %d times; want %s, %d and %d times", name, at, most, all, c.last, receives+2, n*9/2)
		}
	}
}
