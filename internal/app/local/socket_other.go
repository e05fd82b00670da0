//go:build !unix

package local

import "net"

func bindSocket(path string) (net.Listener, error) { return net.Listen("unix", path) }

// refused takes each failure to connect for a socket that nobody listens on.
func refused(error) bool { return true }
