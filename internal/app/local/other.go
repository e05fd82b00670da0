//go:build !unix

package local

import "net"

// Files is how many files this process may have open; 0: that is not known.
func Files() int { return 0 }

func bindSocket(path string) (net.Listener, error) { return net.Listen("unix", path) }

// refused takes each failure to connect for a socket that nobody listens on.
func refused(error) bool { return true }
