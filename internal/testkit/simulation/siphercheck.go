package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/sipher/wire"
)

const (
	// sipherJob is how long a job takes at most: its tries, the waits between them, and its time on
	// queues.
	sipherJob = 10 * time.Minute
	// sipherLeast is the sum of the waits between tries, before which nothing is given up.
	sipherLeast = 75 * time.Second
	// sipherHanging is how much longer jobs take for a server that hangs, which are tried one by one.
	sipherHanging = 2 * time.Hour
	// sipherCalls is how many more calls it takes to record a Sipher answer than another: those
	// that change the follow and the server.
	sipherCalls = 5
	// checkTakes is how long a check takes at most: 8 s for its answer, and its slow calls.
	checkTakes = 15 * time.Second
	// checkSlack is how late a check may be: the schedule runs each minute.
	checkSlack = 3 * time.Minute
)

// expectSipher returns by when a job that became due at a time has to be finished, and whether it
// has to be delivered: because its server accepted all that time, or could be reached through
// servers that do not lie.
func (s *sim) expectSipher(p Post, to Inbox, at, due time.Duration) expectation {
	v := s.servers[to.Server]
	by := max(due, s.scenario.Faults.Until) + sipherJob + s.disorder()
	if p.Ordering != "" {
		for _, other := range s.book.posts {
			if other.Ordering == p.Ordering {
				by += sipherJob
			}
		}
	}
	if hangs := func(ph Phase) bool { return ph.Answer.Kind == Hangs }; slices.ContainsFunc(v.Phases, hangs) {
		by += sipherHanging
	}
	e := expectation{by: by}
	if p.Expires > 0 || by-due > giveUp-day || slices.ContainsFunc(s.scenario.Acts, func(a Act) bool {
		return a.Do == Block && a.Host == to.Server || a.Do == Cancel && a.N == p.N
	}) {
		return e
	}
	met := s.met(v, Span{max(0, at-time.Minute), by})
	e.must = met(func(k Kind) bool {
		return k == Accepts || k == Swallows || p.Job != wire.DeliverFollow && (k == Nods || k == Forges)
	})
	if !e.must && s.calm() && v.Sipher.Known && s.soundProxies(v) {
		e.must = met(func(k Kind) bool { return k == Accepts || k == Hides || k == Closes })
	}
	return e
}

// met returns a function that reports whether a server's answers within a time are all of a kind.
func (s *sim) met(v *server, in Span) func(func(Kind) bool) bool {
	return func(is func(Kind) bool) bool {
		if !is(phaseAt(v.Phases, in.From).Kind) {
			return false
		}
		return !slices.ContainsFunc(v.Phases, func(ph Phase) bool { return in.has(ph.From) && !is(ph.Answer.Kind) })
	}
}

// soundProxies reports whether jobs for a server that we cannot reach get there: we know a server
// that passes them on, and no other. Strangers do not matter as long as we send them nothing.
func (s *sim) soundProxies(target *server) bool {
	n := 0
	for _, v := range s.servers {
		if v.Sipher == nil || v == target || !v.Sipher.Known && !s.addressed(v.Host) {
			continue
		}
		if len(v.Phases)+len(v.Sipher.Proxying) > 0 || !v.Sipher.Known ||
			slices.ContainsFunc(s.scenario.Acts, func(a Act) bool { return a.Host == v.Host && a.Do == Block }) {
			return false
		}
		n++
	}
	return n > 0
}

func (s *sim) addressed(host string) bool {
	return slices.ContainsFunc(s.scenario.Acts, func(a Act) bool {
		return a.Post != nil && slices.ContainsFunc(a.Post.Recipients, func(r Inbox) bool { return r.Server == host })
	})
}

// register lets a server register itself with us.
func (s *sim) register(a Act, name string) {
	v := s.servers[a.Host]
	if v == nil || v.peer == nil {
		return // the shrunk story has no such server
	}
	body, err := json.Marshal(map[string]string{
		"method": "REGISTER", "url": v.peer.URL, "publicKey": v.peer.PublicKey(), "encryptionPublicKey": v.peer.EncryptionKey(),
	})
	if err != nil {
		panic(err)
	}
	v.peer.Know(ownOrigin, s.us.PublicKey(), s.us.EncryptionKey()) // it has discovered us before
	status, answer := s.call(name, http.MethodPost, "/discover", string(body))
	s.story.print("%s registers, and is answered %d %.100s", v.Host, status, answer)
	if v.registered++; status != http.StatusOK || !s.watchful() {
		return
	}
	if r, err := s.raw.Sipher().Server(context.Background(), v.peer.URL); err != nil || r.IsHealthy || !peers.DefaultPolicies().For(r.Reason).DirectHealthCheckable {
		return
	}
	before, hidden := v.checks, v.hidden
	s.wait(name+" is checked", checkSlack)
	if r, err := s.raw.Sipher().Server(context.Background(), v.peer.URL); !s.over.Load() && err == nil && !r.IsHealthy && v.checks == before && v.hidden == hidden {
		s.fail("checks", "%s, which is unhealthy, has registered again, and was not checked within %s", v.Host, checkSlack)
	}
}

// watchful reports whether checks are expected on time.
func (s *sim) watchful() bool { return s.calm() && s.disorder() == 0 && !s.over.Load() }

// discovered records that a server was asked for its card.
func (v *server) discovered(p *process, r *http.Request) {
	if r.Method == http.MethodGet {
		v.asked++
		if strings.HasSuffix(actorOf(r.Context()), "/schedule") {
			v.checks++
			v.checkedAt = time.Since(p.began)
			p.story.print("%s checks %s", p.name(), v.Host)
		}
	}
}

// tried records a try of a job, which has five.
func (v *server) tried(p *process, n int) {
	v.tries[n]++
	of := p.book.posts[n]
	if of == nil || !p.calm() || p.book.revived() {
		return
	}
	if most := retry.Sipher().Tries * max(1, len(of.ids)); v.tries[n] > most {
		p.book.fail("tries", "%s was sent post %d %d times (at most %d)", v.Host, n, v.tries[n], most)
	}
}

func (v *server) faultedBy(p *process, req request) {
	if req.post && req.path != "/discover" {
		v.faulted(p, v.at(time.Since(p.began), req.path).Kind != Hides)
	}
}

// faulted records that a delivery to a server got no answer. If the server may be checked directly,
// it is checked within minutes, and not more often than allowed.
func (v *server) faulted(p *process, checkable bool) {
	s := p.sim
	v.faults++
	if !checkable {
		v.hidden++
		return
	}
	if !s.watchful() || v.checks > 0 && time.Since(s.began)-v.checkedAt < checkTakes {
		return // if a check is due while another is under way, they are one, and the next comes later
	}
	asked, checks, faults, hidden, registered := v.asked, v.checks, v.faults, v.hidden, v.registered
	name := fmt.Sprintf("checks of %s after fault %d", v.Host, faults)
	s.goes(func() {
		s.wait(name, peers.CheckDelay(0)+checkSlack)
		if s.over.Load() || v.hidden != hidden {
			return
		}
		if v.asked == asked {
			s.fail("checks", "%s gave no answer %s ago, may be checked, and was not", v.Host, peers.CheckDelay(0)+checkSlack)
		}
		limit, all := s.settings.Sipher.Checks, checkSlack
		for n := range limit {
			all += peers.CheckDelay(n) + checkSlack
		}
		from := time.Since(s.began) - peers.CheckDelay(0) - checkSlack
		s.wait(name+", all", all)
		down := s.met(v, Span{from, time.Since(s.began)})(func(k Kind) bool { return k == Refuses || k == Resets || k == Closes })
		if s.over.Load() || !down || v.faults != faults || v.registered != registered {
			return
		}
		if n := v.checks - checks; n < limit || n > limit+2 {
			s.fail("checks", "%s, which gives no answer, was checked %d times, and not %d times", v.Host, n, limit)
		}
	})
}

// checkFollow compares the local record of a follow with what its server acknowledged.
func (s *sim) checkFollow(p *posted) {
	if p.Job != wire.DeliverFollow || !s.calm() || len(p.ids) != 1 || p.forgotten(s) {
		return
	}
	d := p.inboxes[p.Recipients[0].url()]
	f, ok := s.follow(p)
	if !ok {
		s.fail("lost", "the follow of post %d has no local record", p.N)
		return
	}
	if f.Accepted != d.accepts {
		s.fail("untrue", "the follow of post %d is recorded as accepted %t; that its server accepted it and we could know is %t", p.N, f.Accepted, d.accepts)
	}
}

func (s *sim) follow(p *posted) (follow.Follow, bool) {
	for cursor := ""; ; {
		fs, next, err := s.raw.Sipher().Follows(context.Background(), cursor, 1000)
		if err != nil {
			s.fail("lost", "follows cannot be read: %v", err)
			return follow.Follow{}, false
		}
		for _, f := range fs {
			if f.ID == "f"+strconv.Itoa(p.N) {
				return f, true
			}
		}
		if cursor = next; next == "" {
			return follow.Follow{}, false
		}
	}
}

// remembered is how long the record of a post is kept.
func (p *posted) remembered(s *sim) time.Duration {
	if p.Job != "" {
		return sipher.KeepDelivered
	}
	return s.settings.Limits.Retention
}

// soonest is how long a post is tried at least.
func (p *posted) soonest() time.Duration {
	if p.Job != "" {
		return sipherLeast
	}
	return giveUp
}

// checkChecks finds checks that were forgotten.
func (s *sim) checkChecks() {
	for _, it := range s.engine.Items("SIPHER#health-check") {
		if !it.Due.At.IsZero() && time.Since(it.Due.At) > time.Hour {
			s.fail("left", "%s is due since %s", it.PK, clock(it.Due.At.Sub(s.began)))
		}
	}
}
