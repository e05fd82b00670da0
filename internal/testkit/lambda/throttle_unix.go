//go:build unix

package lambda

import (
	"os"
	"syscall"
	"time"
)

// throttle gives a process a share of a processor until it ends. Lambda does that with the
// kernel's quota, which needs root; this needs only to own the process.
func throttle(p *os.Process, share float64, done <-chan struct{}) {
	const period = 100 * time.Millisecond
	on := time.Duration(share * float64(period))
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		// An error says that the process has ended, which done says too.
		_ = p.Signal(syscall.SIGCONT)
		tick.Reset(on)
		select {
		case <-tick.C:
		case <-done:
			return
		}
		if on >= period {
			continue
		}
		_ = p.Signal(syscall.SIGSTOP)
		tick.Reset(period - on)
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
