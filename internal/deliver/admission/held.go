package admission

import (
	"math"
	"time"
)

// held is how long something has held places lately; the half-life is halfLife. It is stored as
// the logarithm of the weighted sum, so that two values compare without knowing the time, and
// none overflows.
type held float64

const halfLife = time.Minute

// nothing is held of what has held no place.
var nothing = held(math.Inf(-1))

// plus adds d, which ended at the time at since an epoch.
func (h held) plus(d, at time.Duration) held {
	if d <= 0 {
		return h
	}
	x := math.Log2(d.Seconds()) + at.Seconds()/halfLife.Seconds()
	a, b := max(float64(h), x), min(float64(h), x)
	return held(a + math.Log2(1+math.Exp2(b-a)))
}
