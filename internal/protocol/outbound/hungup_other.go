//go:build !unix

package outbound

import "net"

// hungUp reports false: on this system it cannot look without reading from the connection.
func hungUp(net.Conn) bool { return false }
