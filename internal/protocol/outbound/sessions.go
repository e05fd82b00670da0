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

// tickets is the cache as one connection sees it: with sessions whose certificates are valid,
// and with a word to the pool about what the connection learns about the host's tickets.
type tickets struct {
	tls.ClientSessionCache
	certificates *certificates
	ticket       func(came bool) // nil: nobody asks
}

// Get implements tls.ClientSessionCache.
func (t tickets) Get(key string) (*tls.ClientSessionState, bool) {
	cs, ok := t.ClientSessionCache.Get(key)
	if ok && cs != nil && !t.certificates.resumable(cs) {
		t.Put(key, nil)
		return nil, false
	}
	return cs, ok
}

// Put implements tls.ClientSessionCache.
func (t tickets) Put(key string, cs *tls.ClientSessionState) {
	if cs != nil {
		t.certificates.note(cs)
	}
	t.ClientSessionCache.Put(key, cs)
	if t.ticket != nil {
		t.ticket(cs != nil)
	}
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
