package outbound

import (
	"errors"
	"math"
	"net"
	"sync/atomic"
)

// meter is the socket below the TLS of an HTTP/2 connection. It bounds what the host may
// send: net/http reads and answers frames such as PING without end, also while no request
// is under way, and a few hosts that send them as fast as they can would take all of this
// machine's processors.
type meter struct {
	net.Conn
	left atomic.Int64 // bytes
}

func newMeter(c net.Conn) *meter {
	m := &meter{Conn: c}
	m.left.Store(math.MaxInt64) // until the first request: crypto/tls bounds the handshake
	return m
}

// perAnswer is how much a host may send for a request of whose body so much is read: as
// much again may be under way by then, and headers and frames come with it.
func perAnswer(maxBody int) int64 { return 2*int64(maxBody) + 4*maxHeader }

// allow lets the host send up to n bytes from now on.
func (m *meter) allow(n int64) { m.left.Store(n) }

var errGreedy = &InvalidAnswerError{errors.New("more came than an answer has, so the connection was closed")}

// Read fails when the host has sent more than it may.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errGreedy
	}
	return n, err
}
