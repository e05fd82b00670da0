package deliver

import (
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
)

// lane bounds what a process has under way of one protocol whose servers have
// no circuit. Of its places one host can only take a part, so a host that hangs
// leaves the others to the rest; and whoever finds no place soon goes back to
// its queue, so it holds no invocation either, in which others would wait for
// it.
type lane struct {
	places  chan struct{}
	perHost int

	mu    sync.Mutex
	hosts map[string]*hostPlaces
}

// hostPlaces are those of one host; users are who has one or waits for one.
type hostPlaces struct {
	taken chan struct{}
	users int
}

func newLanes(protocols protocol.Set) map[activity.Protocol]*lane {
	lanes := make(map[activity.Protocol]*lane)
	for _, p := range protocols {
		r := p.Delivery
		if r.InFlight > 0 {
			perHost := r.PerHost
			if perHost <= 0 || perHost > r.InFlight {
				perHost = r.InFlight
			}
			lanes[p.Name] = &lane{places: make(chan struct{}, r.InFlight), perHost: perHost, hosts: make(map[string]*hostPlaces)}
		}
	}
	return lanes
}

// laneWait is how long a delivery waits for a place: a server that is well frees
// several in that time.
const laneWait = 2 * time.Second

// enter takes a place for an attempt to host, which leave frees; ok is false if
// none was free in time. A nil lane has room for all.
func (l *lane) enter(host string) (leave func(), ok bool) {
	if l == nil {
		return func() {}, true
	}
	h := l.host(host)
	timeout := time.NewTimer(laneWait)
	defer timeout.Stop()
	select {
	case h.taken <- struct{}{}:
	case <-timeout.C:
		l.forget(host, h)
		return nil, false
	}
	select {
	case l.places <- struct{}{}:
	case <-timeout.C:
		<-h.taken
		l.forget(host, h)
		return nil, false
	}
	return func() {
		<-l.places
		<-h.taken
		l.forget(host, h)
	}, true
}

func (l *lane) host(name string) *hostPlaces {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.hosts[name]
	if !ok {
		h = &hostPlaces{taken: make(chan struct{}, l.perHost)}
		l.hosts[name] = h
	}
	h.users++
	return h
}

// forget drops what nobody uses: hosts are chosen by strangers.
func (l *lane) forget(name string, h *hostPlaces) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(l.hosts, name)
	}
}

// longestCrowded is how long a delivery stays away that found no place, or whose
// turn it was not.
const longestCrowded = 2 * time.Minute

// crowded sends a delivery back to its queue until it may be its turn. The more
// often it came in vain, the longer it stays away, and all come back at times of
// their own.
func (u *unit) crowded(j *job, note string) {
	wait := min(u.route.Policy.Wait(u.m.ReceiveCount, u.Random()), longestCrowded)
	j.next = u.Now().Add(u.jitter(wait))
	if j.out.RetryAfter.After(j.next) {
		j.next = j.out.RetryAfter
	}
	j.attempt, j.state, j.note, j.out = false, activity.Retrying, note, outcome.Outcome{}
}
