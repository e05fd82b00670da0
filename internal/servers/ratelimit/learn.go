package ratelimit

import "time"

// A limit is learnt as TCP learns a rate. A limit starts from the rate that was seen to work,
// and doubles with each minute in which it is used without a 429 (slow start). When the host
// answers 429 again, the limit is halved; it then doubles up to the rate that was too much,
// and grows by a step from there (congestion avoidance).
//
// https://www.rfc-editor.org/rfc/rfc5681#section-3.1

// Bounds of learnt limits.
const (
	// LearntFor is how long a learnt limit holds after the last 429.
	LearntFor = time.Hour
	// relearn is how long a limit stays unchanged after it was learnt: 429s to
	// deliveries that were sent before do not count against it.
	relearn = time.Minute
	// firstGuess is the first limit, in deliveries a minute, when no working rate
	// is known.
	firstGuess = 60
	// mostLearnt is the highest limit: a queue takes no more.
	mostLearnt = 1_000_000
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
		l.TooMuch = l.PerMinute
		perMinute = l.PerMinute / 2
	case perMinute == 0:
		perMinute = firstGuess
	}
	if !inForce {
		l.Burst, l.Arrival, l.TooMuch = 0, time.Time{}, 0
	}
	l.PerMinute, l.LearntAt, l.GrownAt = max(1, perMinute), now, time.Time{}
	l.Step = max(leastStep, l.PerMinute/growth)
	l.Until = now.Add(LearntFor)
	l.Forget = l.Until
	return l
}

// grown returns a learnt limit after it was used at now.
func (l Limit) grown(now time.Time) Limit {
	switch {
	case l.Step == 0, !l.GrownAt.IsZero() && now.Sub(l.GrownAt) < time.Minute:
		return l
	case l.GrownAt.IsZero(): // its first use
	case l.TooMuch > 0 && 2*l.PerMinute >= l.TooMuch:
		l.PerMinute += l.Step
	default:
		l.PerMinute = min(2*l.PerMinute, mostLearnt)
	}
	l.GrownAt = now
	return l
}
