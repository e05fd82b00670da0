package deliver

import (
	"net/netip"
	"sync"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

// A host that hangs holds an invocation for as long as an attempt takes. So deliveries that
// may be to such a host get a share of a queue's invocations, and the remaining invocations
// are kept for others. A delivery that finds its share used up goes back to its queue. Where
// shares are bounded, which is in up, an invocation is of one message.

// share names the deliveries that have a share of a queue's invocations together: all
// retries, or those to one site's hosts that have accepted nothing lately.
type share struct {
	queue   queue.Name
	site    string // empty: all
	retries bool
}

// shares are those of a process. most is how many invocations a share of a queue has; nil or
// 0: no bound.
type shares struct {
	most func(queue.Name) int

	mu    sync.Mutex
	taken map[share]*holders
	line  map[queue.Name]*line
}

// holders are the invocations that work on the deliveries of a share.
type holders struct {
	invocations map[*invocation]bool
	// host is the one host that all of them are to, or "" if there are several.
	host string
}

func newShares(most func(queue.Name) int) *shares {
	return &shares{most: most, taken: map[share]*holders{}, line: map[queue.Name]*line{}}
}

// enter reports whether v may work on a delivery of a share, for a host. If so, v holds one
// of its places until v ends. A host that is alone in its share always finds a place,
// because its circuit spares it soon.
func (s *shares) enter(v *invocation, of share, most int, host string) bool {
	h, ok := s.taken[of]
	if !ok {
		h = &holders{invocations: map[*invocation]bool{}, host: host}
		s.taken[of] = h
	}
	alone := host != "" && h.host == host
	if !alone && !h.invocations[v] && len(h.invocations) >= most {
		return false
	}
	h.invocations[v] = true
	if !alone {
		h.host = ""
	}
	return true
}

// leave ends what an invocation holds. Strangers choose the sites, so a share without
// holders is dropped.
func (s *shares) leave(v *invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, h := range s.taken {
		if delete(h.invocations, v); len(h.invocations) == 0 {
			delete(s.taken, of)
		}
	}
}

// bounded is how many invocations of this queue a share may have; 0: no bound.
func (v *invocation) bounded() int {
	if v.shares.most == nil {
		return 0
	}
	return v.shares.most(v.from)
}

// mayVisit reports whether this invocation may make an attempt at a host that has accepted
// nothing lately, because few enough others make attempts at such hosts of its site.
// Retries have half of that, so that one site leaves places to the retries of others.
func (u *unit) mayVisit(j *job) bool {
	most, site := u.bounded(), u.unprovenSite(j)
	if most == 0 || site == "" {
		return true
	}
	of := share{queue: u.from, site: site, retries: u.isRetry(j)}
	if of.retries {
		most = max(1, most/2)
	}
	u.shares.mu.Lock()
	defer u.shares.mu.Unlock()
	return u.shares.enter(u.invocation, of, most, j.host)
}

// unprovenSite is the site of a host that has accepted nothing lately, or "" if the host
// has, or is on a private network: such hosts are ours, and trials have many on one address.
func (u *unit) unprovenSite(j *job) string {
	if !u.route.Policy.Circuit || u.Hosts.Proven(j.host) {
		return ""
	}
	site := activity.SiteOf(j.host)
	ip, err := netip.ParseAddr(site)
	if p, notPrefix := netip.ParsePrefix(site); notPrefix == nil {
		ip, err = p.Addr(), nil
	}
	if site == "localhost" || err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()) {
		return ""
	}
	return site
}

// isRetry reports whether a target is a retry that may wait so that first sends go ahead, or
// has gone back to its queue before. A trial may not wait, because it decides about many
// other deliveries. A retry on the ordered queue may not, because each receive counts there, and
// it holds up its own group only.
func (u *unit) isRetry(j *job) bool {
	waited := j.tries() > 0 || j.recorded && j.last.State == activity.Retrying
	return u.single() && waited && !u.d.Trial && !u.from.Ordered()
}
