package local

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep compares two clocks: CLOCK_BOOTTIME goes on while the machine sleeps,
// CLOCK_MONOTONIC does not (clock_gettime(2)).
func asleep() (time.Duration, bool) {
	var boot, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil {
		return 0, false
	}
	return time.Duration(boot.Nano() - awake.Nano()), true
}
