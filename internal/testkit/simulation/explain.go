package simulation

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

// explained are the ages at which a post that is not over is looked at.
var explained = []time.Duration{time.Hour, 26 * time.Hour, 4 * day}

// explainAll schedules checks of the states of all posts.
func (s *sim) explainAll() {
	for _, a := range s.scenario.Acts {
		if a.Post == nil {
			continue
		}
		p := s.book.post(*a.Post)
		for _, age := range explained {
			s.goes(func() {
				s.wait(fmt.Sprintf("explain %d after %s", p.N, age), a.At+a.Post.Delay+age)
				if !s.over.Load() {
					s.checkExplained(p)
				}
			})
		}
	}
}

// checkExplained checks that a post's state explains itself: a parked delivery says what it waits
// for, and one that waits says why, and when it goes on: not long ago, because nobody would come
// then, and within a day. A delivery that moves just now may look otherwise, so it is looked at
// twice.
func (s *sim) checkExplained(p *posted) {
	first := s.unexplained(p)
	if len(first) == 0 {
		return
	}
	s.wait(fmt.Sprintf("look again at %d", p.N), 5*time.Minute)
	if s.over.Load() {
		return
	}
	for inbox, what := range s.unexplained(p) {
		if first[inbox] != "" {
			s.fail("unexplained", "%s", what)
		}
	}
}

// unexplained returns what is wrong with the states of a post, by inbox.
func (s *sim) unexplained(p *posted) map[string]string {
	wrong := map[string]string{}
	late := 15*time.Minute + s.disorder() + s.queued()
	for _, id := range p.ids {
		v, err := s.book.view(id)
		if err != nil {
			continue // checkPost reports what is lost
		}
		if err := ledger.Explain(context.Background(), s.raw, v.Recipients, time.Now()); err != nil {
			s.fail("unexplained", "post %d: %v", p.N, err)
		}
		for _, r := range v.Recipients {
			if r.State != activity.Parked && r.State != activity.Retrying {
				continue
			}
			in := time.Until(r.NextAttemptAt)
			if r.State == activity.Parked && r.WaitsFor == "" || r.Reason == "" || r.NextAttemptAt.IsZero() || in < -late || in > slow+late {
				wrong[r.Inbox] = fmt.Sprintf("post %d of %s to %s is %s, waits for %q, next attempt at %s",
					p.N, clock(p.answeredAt.Sub(s.began)), r.Inbox, r.State, r.WaitsFor, r.NextAttemptAt.Format(time.DateTime))
			}
		}
	}
	return wrong
}

// disorder is how much later things may be because of failures of ours.
func (s *sim) disorder() time.Duration {
	d := time.Duration(0)
	if !s.calm() {
		d += 2 * time.Hour
	}
	for _, a := range s.scenario.Acts {
		if a.Do == SetBack {
			d += a.For + 2*time.Hour
		}
	}
	return d
}
