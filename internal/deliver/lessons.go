package deliver

import (
	"context"
	"net/http"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// lessons records what attempts show about servers. It counts in this process at once, and is
// saved in the background, so that no attempt waits for a table.
type lessons struct{ *Engine }

// learnOfInbox learns about an attempt's inbox and signing key as soon as it has ended, so that
// other deliveries that wait now spare an inbox that verifies no signature.
func (l lessons) learnOfInbox(u *unit, j *job) {
	if j.out.Class == outcome.Delivered {
		l.Hosts.Accepted(j.host)
	}
	if !u.route.Policy.Circuit || j.out.Try != outcome.Made {
		return
	}
	switch j.out.Class {
	case outcome.Unverified:
		now, signed := l.Now(), circuit.SignedHostKey(j.host, u.keyDigest)
		l.Hosts.ObserveUnder(signed, circuit.UnverifiedBy(j.target.Inbox, u.a.KeyID, j.out))
		if l.Hosts.State(signed).Accepts(now) {
			signed = circuit.SignedInboxKey(j.target.Inbox, u.keyDigest)
			l.Hosts.ObserveUnder(signed, circuit.Unverified(u.a.KeyID, j.out))
		}
		if l.Hosts.State(signed).Accepts(now) {
			return
		}
		l.Hosts.Learn(circuit.HostKey(j.host), l.inboxFault(now))
	case outcome.Delivered:
		for _, key := range j.keys.Inboxes {
			if l.Hosts.State(key).Counting() {
				l.Hosts.ObserveUnder(key, circuit.Observation{Successes: 1, Accepted: 1, Took: j.target.Inbox})
			}
		}
	}
}

func (l lessons) inboxFault(now time.Time) cache.Lesson {
	return cache.Lesson{Kind: "inboxes", Apply: func(s circuit.State) circuit.State { return s.InboxFault(l.Rules, now) }}
}

// learn learns about an attempt's host, and ends a trial, before the attempt's place is free.
func (l lessons) learn(u *unit, j *job) {
	if !u.route.Policy.Circuit {
		return
	}
	now, seen := l.Now(), circuit.Observation{}.Add(j.target.Inbox, j.out)
	host, o := circuit.HostKey(j.host), j.out
	tried := ""
	if by, _ := l.Hosts.Decision(j.keys, now); u.d.Trial && by.Trying(now) {
		tried = by.Key
		l.Hosts.Learn(tried, cache.Lesson{Kind: "trial", Apply: func(s circuit.State) circuit.State {
			return s.TrialEnded(l.Rules, j.target, o, now)
		}})
		switch {
		case tried == host:
			seen.Vain = 0 // the trial has counted it
		case o.HostFault() && o.Status != 0, o.Class == outcome.Unverified:
			seen = circuit.InVain(o)
		}
	}
	if o.Class == outcome.Throttled {
		l.throttled(j, seen, tried)
		return
	}
	if o.Class == outcome.Gone && u.a.Type != "Delete" {
		// Some servers answer 410 to a Delete of an unknown actor, which says nothing of them.
		l.Hosts.Learn(host, cache.Lesson{Kind: "gone", Apply: func(s circuit.State) circuit.State {
			return s.SaidGone(l.Rules, o.Err, now)
		}})
	}
	l.Hosts.ObserveUnder(host, seen)
}

// throttled pauses an inbox whose server asked for it. tried is the key of the state for which the
// delivery was on trial; empty: it was not. Only a shared inbox can pause its host; the host's
// state decides when several others do.
func (l lessons) throttled(j *job, seen circuit.Observation, tried string) {
	o, now, host := j.out, l.Now(), circuit.HostKey(j.host)
	pause := cache.Lesson{Kind: "throttled", Apply: func(s circuit.State) circuit.State {
		return s.Throttle(l.Rules, o.RetryAfter, o.Err, now)
	}}
	accepted := l.Hosts.State(host).Accepts(now)
	switch {
	case tried != "" && tried != host:
		l.Hosts.ObserveUnder(host, circuit.InVain(o))
	case j.target.Shared && tried == "":
		l.Hosts.ObserveUnder(host, circuit.InVain(o))
		l.Hosts.Learn(host, pause)
	default:
		l.Hosts.Learn(circuit.InboxKey(j.target.Inbox), pause)
		l.Hosts.Learn(host, l.inboxFault(now))
		l.Hosts.ObserveUnder(host, seen)
	}
	if accepted && !l.Hosts.State(host).Accepts(now) {
		l.learnRate(j)
	}
}

// learnRate learns the rate limit of a host that has just been paused: it answered 429, and
// accepted deliveries shortly before. If other inboxes accepted these, their few deliveries a minute
// are not taken for the limit.
func (l lessons) learnRate(j *job) {
	perMinute, known := l.Hosts.Rate(j.host)
	if j.out.Status != http.StatusTooManyRequests || l.Limiter == nil || !known {
		return
	}
	now, host := l.Now(), circuit.HostKey(j.host)
	if !j.target.Shared && !l.Hosts.State(host).TookLast(j.target.Inbox) {
		perMinute = max(perMinute, ratelimit.FirstGuess)
	}
	l.Hosts.Learn(host, cache.Lesson{
		Kind:  "rate",
		Apply: func(s circuit.State) circuit.State { return s },
		Before: func(ctx context.Context) (func(circuit.State) circuit.State, error) {
			limit, err := l.Limiter.Learn(ctx, j.host, perMinute)
			return func(s circuit.State) circuit.State {
				if !limit.InForce(now) || limit.Until.IsZero() {
					return s
				}
				return s.LearnRate(l.Rules, limit.PerMinute, limit.Until, now)
			}, err
		},
	})
}
