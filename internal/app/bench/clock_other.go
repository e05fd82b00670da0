//go:build !unix

package bench

import "time"

var loadedAt = time.Now()

// clock is the time since the process began, where processor time is not at hand.
func clock() time.Duration { return time.Since(loadedAt) }
