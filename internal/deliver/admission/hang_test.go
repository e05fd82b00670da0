package admission

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/long"
)

// hang is what strangers do: the hosts of their domains accept promptly, then hang from one moment
// on, at which they get deliveries.
type hang struct {
	domains, hosts int           // hosts of each domain
	takes          time.Duration // of an answer; 0: none comes
	waves          int           // seconds over which the moments of the domains are spread
	unknown        int           // domains of hosts that nobody has met, which hang all the time
}

const moment = time.Hour

// play plays it, and returns how long deliveries wait to hosts that are well: to those that have
// accepted once, 50 or 5 minutes before the moment, and to those never met.
func (h hang) play(b Bounds) (known, fresh []time.Duration) {
	p := newProcess(1, b)
	at := func(site, host string, answer func(int) (time.Duration, Result)) *server {
		return &server{name: host + site, site: site, handshake: hello, answer: answer}
	}
	prompt := steady(100*time.Millisecond, Accepted)
	waves, bad := make([][]*server, max(1, h.waves)), []*server(nil)
	for d := range h.domains {
		for n := range h.hosts {
			s := at(fmt.Sprint("bad", d), fmt.Sprint(n, "."), func(n int) (time.Duration, Result) {
				switch {
				case n == 1:
					return prompt(n)
				case h.takes > 0:
					return h.takes, Accepted
				}
				return timeout, Failed
			})
			bad = append(bad, s)
			w := &waves[d%len(waves)]
			*w = append(*w, s)
		}
	}
	var unknown []*server
	for d := range h.unknown {
		unknown = append(unknown, at(fmt.Sprint("unknown", d), "", steady(timeout, Failed)))
	}
	p.at(moment-5*time.Minute, func() { p.deliver(50, "", bad...) })
	for when := -timeout; when < timeout; when += timeout {
		p.at(moment+when, func() { p.deliver(50, "", unknown...) })
	}
	for n, wave := range waves {
		p.at(moment+time.Duration(n)*time.Second, func() { p.deliver(50, "", wave...) })
	}
	for i := range 30 {
		when := moment + time.Duration(1+i*500)*time.Millisecond
		for name, before := range map[string]time.Duration{"early": 50 * time.Minute, "late": 5 * time.Minute} {
			s := at(fmt.Sprint(name, i), "", prompt)
			p.at(moment-before, func() { p.deliver(1, "", s) })
			p.at(when, func() { p.deliver(1, "known", s) })
		}
		p.at(when, func() { p.deliver(1, "new", at(fmt.Sprint("new", i), "", prompt)) })
	}
	p.run(moment + 3*time.Minute)
	for _, d := range p.all {
		waited := d.began - d.due
		if !d.begun {
			waited = p.now - d.due
		}
		switch d.watched {
		case "known":
			known = append(known, waited)
		case "new":
			fresh = append(fresh, waited)
		}
	}
	slices.Sort(known)
	slices.Sort(fresh)
	return known, fresh
}

// TestPromptHostsThatHangAtOnceDelayNobody: fewer domains than there are places and spare attempts,
// less the three quarters or seven eighths of the places that others hold.
func TestPromptHostsThatHangAtOnceDelayNobody(t *testing.T) {
	long.NotUnderRace(t)
	all := ordinary.Places + ordinary.Spare
	for name, h := range map[string]hang{
		"900 domains":                       {domains: 900},
		"1,400 domains":                     {domains: 1400},
		"as many as can":                    {domains: all - 2},
		"beside hosts never met":            {domains: all - part(ordinary.Places) - 2, unknown: 1000},
		"domains of several hosts":          {domains: ordinary.Spare + ordinary.Places/8 - 2, hosts: 3, unknown: 1000},
		"100 a second":                      {domains: 2000, waves: 20},
		"hosts that almost hang":            {domains: long.Pick(2000, 5000), takes: 990 * time.Millisecond},
		"hosts that are never prompt again": {domains: long.Pick(2000, 5000), takes: 1010 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			h.hosts = max(1, h.hosts)
			known, fresh := h.play(ordinary)
			median, worst := known[len(known)/2], known[len(known)-1]
			t.Logf("known hosts: %s, %s at worst; new hosts: %s, %s", median, worst, fresh[len(fresh)/2], fresh[len(fresh)-1])
			if median > time.Second || worst > 3*time.Second {
				t.Errorf("deliveries to known hosts began after %s, %s at worst, want 1s and 3s", median, worst)
			}
			if last := fresh[len(fresh)-1]; last > 20*time.Second {
				t.Errorf("one to a new host began after %s, want 20s", last)
			}
		})
	}
}

// TestPromptHostsOfAWholeBatchMayHang on Lambda, where a batch has up to 500 recipients.
func TestPromptHostsOfAWholeBatchMayHang(t *testing.T) {
	known, _ := hang{domains: 499, hosts: 1}.play(Bounds{Places: 256, Spare: 256, PerHostMost: 8, Waiting: 500}.Shared(2, 50))
	if worst := known[len(known)-1]; worst > time.Second {
		t.Errorf("beside 499 recipients that hang, deliveries to known hosts began after %s at worst, want 1s", worst)
	}
}

// TestMorePromptHostsThanMayHangDelayOthersByOneTimeOut, up to twice as many.
func TestMorePromptHostsThanMayHangDelayOthersByOneTimeOut(t *testing.T) {
	long.NotUnderRace(t)
	all := ordinary.Places + ordinary.Spare
	for _, n := range []int{all + 20, 2*all - 100} {
		known, _ := hang{domains: n, hosts: 1}.play(ordinary)
		if worst := known[len(known)-1]; worst < time.Second || worst > timeout+time.Second {
			t.Errorf("%d domains: deliveries to known hosts began after %s at worst, want about %s", n, worst, timeout)
		}
	}
}

// TestQueuesShareSpareAttempts: in one the first attempts of three domains hang, for which there are
// two places, and in the other as many wait until the spare one is back.
func TestQueuesShareSpareAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Schedulers{Bounds: Bounds{Places: 2, Spare: 1}, Now: time.Now}
		var fates sync.Map
		last := attempt("2", 0, &fates)
		for _, q := range []struct {
			name  queue.Name
			takes time.Duration
		}{{queue.Low, 15 * time.Second}, {queue.High, time.Minute}} {
			for i := range 3 {
				s.Of(q.name).Enter(attempt(fmt.Sprint(i), 0, &fates))
				time.Sleep(time.Millisecond)
			}
			for i := range 2 {
				s.Of(q.name).Enter(attempt(fmt.Sprint(i), q.takes, &fates))
			}
			if q.name == queue.Low {
				s.Of(q.name).Enter(attempt("2", q.takes, &fates))
			} else {
				s.Of(q.name).Enter(last)
			}
		}
		time.Sleep(14 * time.Second)
		if n := count(&fates); n["begun"] != 5 || n["done"] != 6 {
			t.Errorf("of attempts for which two queues have two places each and one spare: %v, want 5 begun", n)
		}
		time.Sleep(time.Second + lookEvery)
		if fate, _ := fates.Load(last); fate != "done" {
			t.Errorf("an attempt that waited for a spare one: %v, want done", fate)
		}
		time.Sleep(time.Minute)
	})
}

// Other queues give spare places back without a word: whoever waits at a queue looks for them, also
// where fewer places are left than its class may take.
func TestSparePlacesThatComeBackAreTaken(t *testing.T) {
	const places = 16
	for _, taken := range []int{places, places - 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &Schedulers{Bounds: Bounds{Places: places, Spare: places}, Now: time.Now}
			var fates sync.Map
			for _, q := range []queue.Name{queue.Low, queue.High} {
				for i := range 2 * places { // they become prompt
					s.Of(q).Enter(attempt(fmt.Sprint(i), 0, &fates))
					time.Sleep(time.Millisecond)
				}
			}
			for i := range taken {
				s.Of(queue.Low).Enter(attempt(fmt.Sprint(i), 15*time.Second, &fates))
			}
			for i := range 2 * places { // its own places and the spare ones
				s.Of(queue.High).Enter(attempt(fmt.Sprint(i), 2*time.Second, &fates))
			}
			time.Sleep(1500 * time.Millisecond)
			fresh := attempt("new", 100*time.Millisecond, &fates)
			s.Of(queue.Low).Enter(fresh)
			time.Sleep(time.Second)
			synctest.Wait()
			if fate, _ := fates.Load(fresh); fate != "done" {
				t.Errorf("with %d places taken a host never met waits although the spare places are back: %v", taken, fate)
			}
			time.Sleep(time.Minute)
		})
	}
}
