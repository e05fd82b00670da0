//go:build unix

package bench

import (
	"syscall"
	"time"
)

// clock is the processor time that this process has used, user and system.
func clock() time.Duration {
	var u syscall.Rusage
	// Getrusage fails for a bad argument only.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
