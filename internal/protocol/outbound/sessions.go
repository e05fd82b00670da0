package outbound

import "crypto/tls"

// Bounds of the TLS sessions that are kept, to save handshakes: one for each host.
const (
	mostSessions = 2048
	// mostSession is the size of one in bytes. A session holds the ticket and all
	// certificates that the host has sent, used or not, some 6 KB as a rule and 300 KB at
	// most: 2,048 hosts of one stranger could fill the memory.
	mostSession = 16 << 10
)

// sessions is a cache of sessions without those that are too large. Hosts whose sessions
// are, get a full handshake each time.
type sessions struct{ tls.ClientSessionCache }

// Put implements tls.ClientSessionCache.
func (s sessions) Put(key string, cs *tls.ClientSessionState) {
	if cs != nil && sizeOf(cs) > mostSession {
		cs = nil // removes an earlier one, whose ticket may be used up
	}
	s.ClientSessionCache.Put(key, cs)
}

// tickets tells what a connection learns about the host's tickets.
type tickets struct {
	tls.ClientSessionCache
	ticket func(came bool)
}

// Put implements tls.ClientSessionCache.
func (t tickets) Put(key string, cs *tls.ClientSessionState) {
	t.ClientSessionCache.Put(key, cs)
	t.ticket(cs != nil)
}

// has reports whether there is a session of the host.
func (s sessions) has(host string) bool {
	cs, ok := s.Get(host)
	return ok && cs != nil
}

// sizeOf is the size of a session when it is written down; of one that cannot be written,
// more than any may have.
func sizeOf(cs *tls.ClientSessionState) int {
	ticket, state, err := cs.ResumptionState()
	if err != nil || state == nil {
		return mostSession + 1
	}
	b, err := state.Bytes()
	if err != nil {
		return mostSession + 1
	}
	return len(ticket) + len(b)
}
