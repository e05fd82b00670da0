package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/faults"
)

// expectAll schedules the check of each post, inbox by inbox, for when it has to be finished.
func (s *sim) expectAll() {
	for _, a := range s.scenario.Acts {
		if a.Post == nil {
			continue
		}
		p := s.book.post(*a.Post)
		due := a.At + a.Post.Delay + time.Duration(30*a.Post.Patience)*time.Second
		whens := map[time.Duration]map[string]expectation{}
		for _, r := range a.Post.Recipients {
			e := s.expectation(a, r, due)
			for _, revival := range s.scenario.Acts {
				switch {
				case a.Post.Job != "":
				case revival.Do == RetryDead && revival.At+giveUp+slow+s.lives(r.Server) > e.by:
					e = expectation{by: revival.At + giveUp + slow + s.lives(r.Server)}
				case revival.Do == Retry && revival.N == a.Post.N:
					e = s.retried(*a.Post, r, e, revival.At)
				}
			}
			e.troubled = a.Post.Job == "" && slices.ContainsFunc(s.troubles(*a.Post, r), func(t Span) bool { return t.To > e.by && t.From < e.by+slow })
			if whens[e.by] == nil {
				whens[e.by] = map[string]expectation{}
			}
			whens[e.by][r.url()] = e
			s.book.deadlines = append(s.book.deadlines, e.by)
			if s.wastes(r.Server) {
				s.book.deadlines = append(s.book.deadlines, e.by+slow)
			}
		}
		for _, by := range slices.Sorted(maps.Keys(whens)) {
			s.goes(func() {
				name := fmt.Sprintf("look at %d %s", p.N, by)
				if s.wait(name, by); s.over.Load() {
					return
				}
				must, daily := map[string]bool{}, map[string]bool{}
				for inbox, e := range whens[by] {
					of := must
					if host := activity.HostOf(inbox); s.wastes(host) && s.book.host(host).vain >= s.spent() {
						if e.troubled {
							continue
						}
						of = daily
					}
					of[inbox] = e.must && (e.retry == 0 || p.retried[e.retry])
				}
				if s.checkPost(p, must); len(daily) == 0 {
					return
				}
				if s.wait(name+" again", slow); !s.over.Load() {
					s.checkPost(p, daily)
				}
			})
		}
	}
}

// expectation is the expected end of a post at an inbox.
func (s *sim) expectation(a Act, to Inbox, due time.Duration) expectation {
	if a.Post.Job == "" {
		return s.expect(*a.Post, to, due, 0)
	}
	e := s.expectSipher(*a.Post, to, a.At, due)
	for _, revival := range s.scenario.Acts {
		if revival.Do == RetryDead && revival.Host == to.Server && revival.At+sipherJob+sipherHanging > e.by {
			e = expectation{by: revival.At + sipherJob + sipherHanging + s.disorder()}
		}
	}
	return e
}

// checkPost checks the state of a post at some inboxes, which has to be final by now.
func (s *sim) checkPost(p *posted, must map[string]bool) {
	for _, id := range p.ids {
		s.checkActivity(p, id, must)
	}
	s.checkFollow(p)
}

func (s *sim) checkActivity(p *posted, id activity.ID, must map[string]bool) {
	v, err := s.book.view(id)
	if errors.Is(err, ledger.ErrNotFound) && p.forgotten(s) {
		// Its record may have expired. What had to be delivered was delivered.
		for inbox, delivered := range must {
			if delivered && len(p.inboxes[inbox].accepted) == 0 && !p.inboxes[inbox].dropped && !s.killed(id, inbox) {
				s.fail("lost", "post %d is forgotten, and %s never got it", p.N, inbox)
			}
		}
		return
	}
	if err != nil {
		s.fail("lost", "post %d was accepted as %s, and now: %v", p.N, id, err)
		return
	}
	seen, sum := 0, 0
	for _, n := range v.Counts {
		sum += n
	}
	for _, r := range v.Recipients {
		d := p.inboxes[r.Inbox]
		seen++
		delivered, ok := must[r.Inbox]
		what := fmt.Sprintf("post %d of %s to %s is %s after %d attempts (%d %.80s %.80s)", p.N, clock(p.answeredAt.Sub(s.began)), r.Inbox, r.State, r.Attempts, r.LastStatus, r.LastError, r.Note)
		switch {
		case d == nil:
			s.fail("stranger", "post %d lists %s, which is none of its recipients", p.N, r.Inbox)
		case r.State == activity.Delivered && len(d.accepted) == 0 && !d.dropped:
			s.fail("untrue", "%s, and the server never took it", what)
		case !ok:
		case !r.State.Final():
			s.fail("late", "%s, and should be over by now; next attempt at %s", what, clock(r.NextAttemptAt.Sub(s.began)))
		case r.State == activity.Dead && s.deadly() && strings.HasPrefix(r.Note, "received "):
			// A message whose processes die again and again is given up as the cause.
		case delivered && r.State != activity.Delivered:
			s.fail("lost", "%s, although the server has been well for long enough", what)
		case r.State != activity.Delivered && len(d.accepted) > 0 && !d.accepted[0].excused && len(p.ids) == 1:
			// If there are several ids, the one that the server took is not known.
			s.fail("untrue", "%s, and the server took it at %s", what, clock(d.accepted[0].at.Sub(s.began)))
		case r.State == activity.Dead && time.Since(p.answeredAt) < p.soonest():
			s.fail("given up", "%s, before its time", what)
		}
	}
	for state := range v.Counts {
		if seen == 0 && !state.Final() {
			s.fail("late", "post %d of %s is not even planned: %v", p.N, clock(p.answeredAt.Sub(s.began)), v.Counts)
		}
	}
	// If it ended before its fan-out reached all recipients, its counts have all of them, and its
	// list those that were planned: nobody plans what nobody will send.
	unlisted := len(p.inboxes) - seen
	ended := v.Counts[activity.Expired] + v.Counts[activity.Cancelled]
	if sum != len(p.inboxes) || unlisted < 0 || unlisted > ended {
		s.fail("counts", "post %d has %d recipients, lists %d and counts %v", p.N, len(p.inboxes), seen, v.Counts)
	}
}

// deadly reports whether processes die in this story.
func (s *sim) deadly() bool {
	at := slices.Collect(maps.Values(s.scenario.Faults.At))
	return s.scenario.Faults.Die > 0 || slices.ContainsFunc(at, func(t Trouble) bool {
		return t.Kind == faults.DieBefore || t.Kind == faults.DieAfter || t.Kind == faults.DieHalfway
	})
}

// checkEnd checks that nothing is left when all work is done.
func (s *sim) checkEnd() {
	for _, n := range queue.Names {
		if d, err := s.engine.Queue(n).Depth(context.Background()); err == nil && n != n.DeadLetter() && d != (queue.Depth{}) {
			s.fail("left", "queue %s is left with %+v", n, d)
		}
	}
	for _, lot := range s.engine.Items("P#") {
		s.fail("left", "a parking lot is left with %s %s", lot.PK, lot.SK)
	}
	for _, task := range s.engine.Items("T#") {
		if strings.HasSuffix(task.SK, "TASK") {
			s.fail("left", "the agenda is left with %s", task.PK)
		}
	}
	for _, spec := range s.scenario.Processes {
		if p := s.processes[spec.Name]; !p.dead.Load() {
			p.look(p.rests())
		}
	}
	s.checkChecks()
	s.checkBatches()
	s.checkFeed()
	s.checkMedians()
	if !s.calm() {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(s.book.posts)) {
		// Deliveries that died with their server are tried at its checks for as long as they may be
		// revived. In each give-up time they cost at most as much as in the first.
		p, most := s.book.posts[n], mostReceives
		if s.revives() > 0 {
			most *= 1 + int((s.revives()+2*giveUp-1)/giveUp)
		}
		if most *= max(1, len(p.Recipients)); p.receives > most+s.pausedAnew(p) {
			s.fail("receives", "post %d to %d inboxes was received %d times (at most %d)", n, len(p.Recipients), p.receives, most+s.pausedAnew(p))
		}
		s.checkLimited(s.book.posts[n])
	}
}

// pausedAnew is how many more times a post may be received because an inbox asks for pauses while
// others of its server accept: after each acceptance the pauses grow anew.
func (s *sim) pausedAnew(p *posted) (n int) {
	for _, r := range p.Recipients {
		for _, phases := range s.servers[r.Server].Inboxes {
			if slices.ContainsFunc(phases, func(ph Phase) bool { return ph.Answer.throttles() }) {
				n += 2 * s.recipientsAt(r.Server)
				break
			}
		}
	}
	return n
}
