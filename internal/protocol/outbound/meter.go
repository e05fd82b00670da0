package outbound

import (
	"errors"
	"math"
	"net"
	"sync/atomic"
)

// meter is the socket below the TLS of an HTTP/2 connection. It bounds what the host may send:
// net/http answers frames such as PING without end, also while no request is under way, so a few
// hosts could take all processors.
type meter struct {
	net.Conn
	left atomic.Int64 // bytes
}

func newMeter(c net.Conn) *meter {
	m := &meter{Conn: c}
	m.left.Store(math.MaxInt64) // until the first request: crypto/tls bounds the handshake
	return m
}

// perAnswer is how many bytes a host may send for a request: the body twice, as the next part may be
// under way when reading ends, and headers and frames.
func perAnswer(maxBody int) int64 { return 2*int64(maxBody) + 4*maxHeader }

func (m *meter) allow(n int64) { m.left.Store(n) }

var errGreedy = &InvalidAnswerError{errors.New("the host sent more than an answer, so the connection was closed")}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errGreedy
	}
	return n, err
}
