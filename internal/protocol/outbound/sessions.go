package outbound

import "crypto/tls"

// Bounds of the TLS sessions that are kept, one for each host.
const (
	mostSessions = 2048
	// mostSession is for the size of one, in bytes. It holds all certificates that the host has
	// sent: some 6 KB as a rule, but up to 300 KB, with which a stranger could fill the memory.
	mostSession = 16 << 10
)

// sessions is a cache without sessions that are too large. Their hosts get a full handshake each
// time.
type sessions struct{ tls.ClientSessionCache }

func (s sessions) Put(key string, cs *tls.ClientSessionState) {
	if cs != nil && sizeOf(cs) > mostSession {
		cs = nil // removes an earlier one, whose ticket may be used up
	}
	s.ClientSessionCache.Put(key, cs)
}

// tickets is the cache for one connection. It returns only sessions whose certificates are valid,
// and reports the host's tickets to the pool.
type tickets struct {
	tls.ClientSessionCache
	certificates *certificates
	ticket       func(came bool) // nil: nobody asks
}

func (t tickets) Get(key string) (*tls.ClientSessionState, bool) {
	cs, ok := t.ClientSessionCache.Get(key)
	if ok && cs != nil && !t.certificates.resumable(cs) {
		t.Put(key, nil)
		return nil, false
	}
	return cs, ok
}

func (t tickets) Put(key string, cs *tls.ClientSessionState) {
	if cs != nil {
		t.certificates.save(cs)
	}
	t.ClientSessionCache.Put(key, cs)
	if t.ticket != nil {
		t.ticket(cs != nil)
	}
}

func (s sessions) has(host string) bool {
	cs, ok := s.Get(host)
	return ok && cs != nil
}

// sizeOf is the encoded size of a session; too large if it cannot be encoded.
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
