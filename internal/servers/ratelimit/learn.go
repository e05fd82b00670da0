package ratelimit

import "time"

// A limit is learnt as TCP learns a rate (additive increase, multiplicative
// decrease). A limit starts from the rate that was seen to work. It is halved
// when the host answers 429 again, and grows by a step each minute in which it is
// used without a 429.
//
// https://en.wikipedia.org/wiki/Additive_increase/multiplicative_decrease

// Bounds of learnt limits.
const (
	// LearntFor is how long a learnt limit holds after the last 429.
	LearntFor = time.Hour
	// relearn is how long a limit stays unchanged after it was learnt: 429s to
	// deliveries that were sent before do not count against it.
	relearn = time.Minute
	// firstGuess is the first limit, in deliveries a minute, when no working rate
	// is known.
	firstGuess = 30
	// growth: a limit's step is a tenth of its starting value, at least 3.
	growth, leastStep = 10, 3
)

// Learn returns l after the host answered 429 at now while it accepted perMinute
// deliveries a minute (0: not known). A limit that an operator set stays
// unchanged.
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

// grown returns a learnt limit after it was used at now.
func (l Limit) grown(now time.Time) Limit {
	if l.Step > 0 && now.Sub(l.GrownAt) >= time.Minute {
		l.PerMinute, l.GrownAt = l.PerMinute+l.Step, now
	}
	return l
}
