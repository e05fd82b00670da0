//go:build unix

package local

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// Files is how many files this process may have open, 0 if that is not known.
func Files() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<20)) // "unlimited" is the largest number
}

// masking is held while the process's umask is changed.
var masking sync.Mutex

// bindSocket makes a socket that only its owner can connect to until its mode is set. It needs
// the umask, which also restricts files that the process makes meanwhile.
func bindSocket(path string) (net.Listener, error) {
	masking.Lock()
	defer masking.Unlock()
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// refused reports whether nobody listens on a socket.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
