package admission

import (
	"math"
	"time"
)

// held is for how long something has held places lately. Time counts half after each
// halfLife. It is kept as the logarithm of the sum of all times, each weighed by when it was:
// so two of them compare at any time without knowing what time it is, and none overflows.
type held float64

const halfLife = time.Minute

// nothing is what has held no place.
var nothing = held(math.Inf(-1))

// plus adds d, which ended at a time since an epoch that is the same for all.
func (h held) plus(d, at time.Duration) held {
	if d <= 0 {
		return h
	}
	x := math.Log2(d.Seconds()) + at.Seconds()/halfLife.Seconds()
	a, b := max(float64(h), x), min(float64(h), x)
	return held(a + math.Log2(1+math.Exp2(b-a)))
}
