package table

import (
	"math"
	"time"
)

// Nanos is t in nanoseconds since 1970, as engines store it. 64 bits hold the years 1678 to
// 2261. An earlier or later time is stored as the first or last of these, so that an expiry in
// the far future does not wrap around into the past.
func Nanos(t time.Time) int64 {
	switch y := t.UTC().Year(); {
	case y > 2261:
		return math.MaxInt64
	case y < 1678:
		return math.MinInt64
	}
	return t.UnixNano()
}

// SetTimes sets an item's times from what Nanos made of them; nil for none.
func (it *Item) SetTimes(expires, due *int64, shard string) {
	if expires != nil {
		it.Expires = time.Unix(0, *expires).UTC()
	}
	if shard != "" && due != nil {
		it.Due = Due{Shard: shard, At: time.Unix(0, *due).UTC()}
	}
}
