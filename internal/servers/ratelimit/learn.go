package ratelimit

import "time"

// A limit is learnt as TCP learns a rate. It starts from the rate that worked, and doubles with
// each minute in which it is used without a 429 (slow start). A 429 halves it; it then doubles
// up to the rate that was too much, and grows by a step from there (congestion avoidance).
//
// https://www.rfc-editor.org/rfc/rfc5681#section-3.1

// Bounds of learnt limits.
const (
	// LearntFor is how long a learnt limit holds after the last 429.
	LearntFor = time.Hour
	// relearn is how long a limit stays after it was learnt: 429s to earlier deliveries do not
	// count.
	relearn = time.Minute
	// growEvery is how long a limit is used before it grows. Runs of the scheduled function begin a
	// minute apart, so the next may come a little earlier.
	growEvery = time.Minute - time.Minute/10
	// FirstGuess is the first limit, in deliveries a minute, if no working rate is known.
	FirstGuess = 60
	// mostLearnt is the highest limit, in deliveries a minute.
	mostLearnt = 1_000_000
	// A step is the limit's starting value divided by growth, at least leastStep.
	growth, leastStep = 10, 3
)

// Learn returns l after the host answered 429 at now, while it accepted perMinute deliveries a
// minute (0: not known). An operator's limit stays.
func (l Limit) Learn(perMinute int, now time.Time) Limit {
	inForce := l.InForce(now)
	switch {
	case inForce && (l.LearntAt.IsZero() || now.Sub(l.LearntAt) < relearn):
		return l
	case inForce:
		l.TooMuch = l.PerMinute
		perMinute = l.PerMinute / 2
	case perMinute == 0:
		perMinute = FirstGuess
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

func (l Limit) grown(now time.Time) Limit {
	switch {
	case l.Step == 0, !l.GrownAt.IsZero() && now.Sub(l.GrownAt) < growEvery:
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
