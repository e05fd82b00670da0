package ratelimit

import "time"

// A limit is learnt as TCP learns a rate: it starts from what was seen to work, is
// halved when the host says 429 again, and grows by a little each minute that it is
// used and the host does not (additive increase, multiplicative decrease).
// https://en.wikipedia.org/wiki/Additive_increase/multiplicative_decrease

// Bounds of what is learnt.
const (
	// LearntFor is how long a learnt limit holds after the last 429.
	LearntFor = time.Hour
	// relearn is how long a limit is left alone after it was learnt: the answers
	// to what was sent before do not count against it.
	relearn = time.Minute
	// firstGuess, a minute, is where a limit starts of which nothing is known.
	firstGuess = 30
	// growth: a limit grows by a tenth of what it started from, and by 3 at least.
	growth, leastStep = 10, 3
)

// Learn returns l after the host answered 429 at now, while it accepted perMinute
// deliveries a minute (0: not known). A limit that an operator set stays.
func (l Limit) Learn(perMinute int, now time.Time) Limit {
	inForce := l.InForce(now)
	switch {
	case inForce && (l.LearntAt.IsZero() || now.Sub(l.LearntAt) < relearn):
		return l
	case inForce:
		perMinute = l.PerMinute / 2
	case perMinute == 0:
		perMinute = firstGuess
	}
	if !inForce {
		l.Burst, l.Arrival = 0, time.Time{}
	}
	l.PerMinute, l.LearntAt, l.GrownAt = max(1, perMinute), now, now
	l.Step = max(leastStep, l.PerMinute/growth)
	l.Until = now.Add(LearntFor)
	l.Forget = l.Until
	return l
}

// grown returns a learnt limit as it is after use at now.
func (l Limit) grown(now time.Time) Limit {
	if l.Step > 0 && now.Sub(l.GrownAt) >= time.Minute {
		l.PerMinute, l.GrownAt = l.PerMinute+l.Step, now
	}
	return l
}
