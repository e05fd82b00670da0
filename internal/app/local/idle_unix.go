//go:build unix

package local

import "syscall"

// Files is how many files this process may have open, 0 if that is not known.
func Files() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<20)) // "unlimited" is the largest number
}
