//go:build unix

package outbound

import (
	"net"
	"syscall"
)

// hungUp reports whether something has arrived on an unused connection, on which no data is
// expected: its end, a reset, a close-notify or a GOAWAY. The reading goroutine may not have run
// yet, especially after a freeze, and a request on such a connection would be lost.
func hungUp(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	// Control and not Read, which would wait for the read that is under way.
	err = rc.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n >= 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err != nil || gone
}
