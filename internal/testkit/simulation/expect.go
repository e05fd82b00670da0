package simulation

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"
)

// giveUp is how long deliveries are tried; slow is how long after that, or after a long outage, the
// daily check of a server may come.
const (
	giveUp = 7 * 24 * time.Hour
	slow   = 25 * time.Hour
)

// expectation is the state that a delivery has to have by a time.
type expectation struct {
	by time.Duration
	// must: it has to be delivered; otherwise it has to be final.
	must bool
	// retry, if not 0, is when a caller asked for new attempts; without them it need not be
	// delivered.
	retry time.Duration
	// troubled: it cannot be delivered at some time of the day after that.
	troubled bool
}

// expect returns by when a post that became due at a time has to be finished at an inbox; refused
// is until when refusals do not count. A server that was in trouble is found to work at its next
// check: within an hour and a half after a short outage, and within a day after a long one. If it
// is in trouble again by then, that counts as one outage. Deliveries that died with their server
// may be revived with it.
func (s *sim) expect(p Post, to Inbox, due, refused time.Duration) expectation {
	e, ends := s.expectFirst(p, to, due, refused)
	if ends {
		return s.comeback(p, to, due, e)
	}
	return e
}

// expectFirst is expect without retries and revival; ends says whether the post may end so.
func (s *sim) expectFirst(p Post, to Inbox, due, refused time.Duration) (e expectation, ends bool) {
	slack := s.slack(to.Server) + s.doubts(p, to.Server)
	end := expectation{by: due + giveUp + slow + slack}
	// Faults of another inbox may open the circuit of the host for a while: only deliveries to
	// several inboxes show whose fault it is.
	var others time.Duration
	if len(s.servers[to.Server].Inboxes) > 0 {
		others = patience(Span{To: time.Hour})
	}
	// After a long outage an inbox has one check a day, which comes after that of its host while
	// another inbox that accepts nothing keeps the host down. Deliveries to an inbox that accepts
	// again after a short outage wait for that check, too, if the other is down for long by then.
	long := func(outage Span) time.Duration {
		switch d := patience(outage); {
		case d > slow && s.otherDown(to, Span{To: 1 << 61}):
			return d + slow
		case outage.To > outage.From && s.otherDown(to, outage):
			return max(d, patience(Span{To: giveUp}))
		default:
			return d
		}
	}
	var outage Span
	for _, trouble := range append(s.troubles(p, to), Span{1 << 62, 1 << 62}) {
		if by := max(due, outage.To) + max(long(outage), others) + slack; by < trouble.From {
			if by < due+giveUp {
				return expectation{by: by, must: !s.mayEnd(p, to, refused)}, false
			}
			return end, true
		}
		if outage.To == 0 || outage.To+max(long(outage), others)+slack < trouble.From {
			outage = trouble
		}
		outage.To = max(outage.To, trouble.To)
	}
	return end, true
}

// otherDown reports whether another inbox of a server accepts nothing at some time of an outage, and
// has accepted nothing for long by its end: the quick checks of the server are over then.
func (s *sim) otherDown(to Inbox, outage Span) bool {
	for path, ps := range s.servers[to.Server].Inboxes {
		if path != to.Path && slices.ContainsFunc(troubled(ps), func(t Span) bool {
			return t.From < outage.To && t.To > outage.From && min(t.To, outage.To)-t.From > 2*time.Hour
		}) {
			return true
		}
	}
	return false
}

// patience is how long after an outage a delivery that waits for its end may take.
func patience(outage Span) time.Duration {
	switch d := outage.To - outage.From; {
	case d == 0:
		return 15 * time.Minute
	case d <= 2*time.Hour:
		return 2 * time.Hour
	}
	return slow + time.Hour
}

// slack is how much longer things may take in this story.
func (s *sim) slack(host string) time.Duration {
	d := s.disorder()
	for _, a := range s.scenario.Acts {
		if a.Do == Limit && a.Host == host {
			d += time.Duration(2*max(len(s.scenario.Acts), s.recipientsAt(host))/max(1, a.Rate)) * time.Minute
		}
	}
	if s.servers[host].Rate > 0 {
		d += slow
	}
	if s.wastes(host) {
		// While its budget keeps the circuit open, refusals end one delivery a minute.
		d += time.Duration(s.recipientsAt(host)) * time.Minute
	}
	return d + s.queued()
}

// recipientsAt counts the recipients of all posts at a server.
func (s *sim) recipientsAt(host string) (n int) {
	for _, a := range s.scenario.Acts {
		if a.Post == nil {
			continue
		}
		for _, r := range a.Post.Recipients {
			if r.Server == host {
				n++
			}
		}
	}
	return n
}

// callsEach are at most made one after another for a delivery by itself.
const callsEach = 10

// queued is how long one worker needs to make all deliveries of a story one by one.
func (s *sim) queued() time.Duration {
	recipients := 0
	for _, a := range s.scenario.Acts {
		if a.Post != nil {
			recipients += len(a.Post.Recipients)
		}
	}
	return time.Duration(callsEach*recipients) * s.scenario.Latency.Typical
}

// doubtFor is how long the three tries of a delivery that is answered 400 take.
const doubtFor = 2 * time.Minute

// doubts is how long the deliveries of an ordering key, which go to a server one after the other,
// wait for those that are answered 400.
func (s *sim) doubts(p Post, host string) time.Duration {
	doubtful := func(ph Phase) bool { return ph.Answer.Kind == Says && ph.Answer.Status == http.StatusBadRequest }
	spec := s.servers[host].Server
	if p.Ordering == "" {
		return 0
	}
	n := 0
	for _, other := range s.book.posts {
		for _, r := range other.Recipients {
			if other.Ordering == p.Ordering && r.Server == host &&
				(slices.ContainsFunc(spec.Phases, doubtful) || slices.ContainsFunc(spec.Inboxes[r.Path], doubtful)) {
				n++
			}
		}
	}
	return time.Duration(n) * doubtFor
}

// troubles returns when a delivery cannot succeed, in order of time. An ordered one waits for those
// before it, and so for all of their inboxes.
func (s *sim) troubles(p Post, to Inbox) []Span {
	spec := s.servers[to.Server].Server
	all := troubled(spec.Phases)
	paths := []string{to.Path}
	if p.Ordering != "" {
		for _, other := range s.book.posts {
			for _, r := range other.Recipients {
				if other.Ordering == p.Ordering && r.Server == to.Server {
					paths = append(paths, r.Path)
				}
			}
		}
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		all = append(all, troubled(spec.Inboxes[path])...)
	}
	for _, a := range s.scenario.Acts {
		if a.Do == Pause && a.Host == to.Server {
			all = append(all, Span{a.At, a.At + a.For})
		}
	}
	if u := s.scenario.Faults.Until; u > 0 {
		all = append(all, Span{0, u})
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return all
}

// troubled returns the times in which phases accept nothing, with the pauses that they ask for.
func troubled(ps []Phase) []Span {
	var all []Span
	for i, p := range ps {
		if !p.Answer.troubles() && !p.Answer.wastes() && p.Answer.Takes == 0 {
			continue
		}
		end := time.Duration(1 << 61)
		if i+1 < len(ps) {
			end = ps[i+1].From
		}
		if p.Answer.throttles() {
			end += 13 * time.Hour // the longest pause
		}
		all = append(all, Span{p.From, end})
	}
	return all
}

func (a Answer) troubles() bool { return a.Kind != Accepts && !a.Once && !a.refuses() }

// wastes reports whether an answer ends deliveries only after requests in vain, of which a host
// gets few before it is treated as one that accepts none.
func (a Answer) wastes() bool {
	return a.Kind == Says && !a.Once && (a.Status == http.StatusBadRequest || a.Status == http.StatusForbidden)
}

// wastes reports whether a server's answers may spend its budget in a short outage: they are no
// faults, of which few open its circuit.
func (s *sim) wastes(host string) bool {
	spec := s.servers[host].Server
	wastes := func(ps []Phase) bool {
		return slices.ContainsFunc(ps, func(p Phase) bool {
			return p.Answer.wastes() || p.Answer.Status == http.StatusUnauthorized && !p.Answer.Once
		})
	}
	return wastes(spec.Phases) || slices.ContainsFunc(slices.Collect(maps.Values(spec.Inboxes)), wastes)
}

// throttles reports whether an answer asks for a pause.
func (a Answer) throttles() bool {
	return a.Kind == Says && (a.Status == http.StatusTooManyRequests || a.RetryAfter != "")
}

// refuses reports whether an answer ends deliveries.
func (a Answer) refuses() bool {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented, http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return true
	}
	return a.Kind == Says && !a.Once && a.Status >= 400 && a.Status < 500
}

// mayEnd reports whether anything in the story may end this delivery; refused is until when
// refusals do not.
func (s *sim) mayEnd(p Post, to Inbox, refused time.Duration) bool {
	spec := s.servers[to.Server].Server
	refuses := func(ps []Phase) bool {
		for i, ph := range ps {
			over := i+1 < len(ps) && ps[i+1].From < refused
			if ph.Answer.refuses() && !over {
				return true
			}
		}
		return false
	}
	if p.Expires > 0 || p.Subject != "" && !s.newest(p) || refuses(spec.Phases) || refuses(spec.Inboxes[to.Path]) {
		return true
	}
	return slices.ContainsFunc(s.scenario.Acts, func(a Act) bool {
		return a.Do == Block && a.Host == to.Server || a.Do == Cancel && a.N == p.N
	})
}
