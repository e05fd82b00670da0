// Package registry is what an operator sees of the servers that deliveries go
// to, and what they can do about one: refuse it, hold it back, ask after it,
// slow down.
//
// A server is never stored by this package. What it shows is the circuit that
// the workers share (package health) and the registry of the Sipher protocol,
// in one vocabulary, because an operator who is called at night wants to know
// which servers are in trouble, not which protocol they speak. What it changes,
// it changes by the methods of those packages and with compare-and-swap, so an
// operator never undoes what a worker has just learnt.
package registry

import (
	"context"
	"errors"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// Errors of the service.
var (
	// ErrUnknown: there is no such Sipher server. A host is never unknown: one
	// that nothing is recorded of is healthy.
	ErrUnknown = errors.New("no such server")
	// ErrBlocked: that cannot be done to a server that is blocked.
	ErrBlocked = errors.New("server is blocked: unblock it first")
	// ErrNotApplicable: that cannot be done to a server of this kind.
	ErrNotApplicable = errors.New("does not apply")
	// ErrBadCursor: a cursor is none that was given out.
	ErrBadCursor = errors.New("no such cursor")
)

// Sipher is what is asked of the Sipher protocol's storage.
type Sipher interface {
	peers.Store
	peers.BlockList
	peers.Schedule
}

// Service does what operators ask.
type Service struct {
	Hosts  circuit.Store
	Limits ratelimit.Limiter
	Sipher Sipher
	Rules  circuit.Rules
	Now    func() time.Time
}

// Get returns a server.
func (s *Service) Get(ctx context.Context, n Name) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		return s.sipher(ctx, n.URL)
	}
	st, err := circuit.Load(ctx, s.Hosts, n.Key)
	if err != nil {
		return contract.Server{}, err
	}
	return s.withLimit(ctx, st)
}

// withLimit is st with the rate limit of its host.
func (s *Service) withLimit(ctx context.Context, st circuit.State) (contract.Server, error) {
	v := s.view(st)
	host, whole := circuit.HostOf(st.Key)
	if !whole || st.Limited(s.Now()) == 0 {
		return v, nil
	}
	l, ok, err := s.Limits.Limit(ctx, host)
	if err != nil {
		return contract.Server{}, err
	}
	if ok {
		v.RateLimit = limitOf(l)
	}
	return v, nil
}

func limitOf(l ratelimit.Limit) *contract.RateLimit {
	return &contract.RateLimit{PerMinute: l.PerMinute, Burst: l.Burst, Learnt: !l.LearntAt.IsZero(), Until: l.Until}
}

// view is a circuit as it stands now: a pause that is over is not shown as one.
func (s *Service) view(st circuit.State) contract.Server {
	now := s.Now()
	st = st.Settled(now)
	v := contract.Server{
		Name: nameOf(st.Key), Protocol: activity.ActivityPub, Phase: st.Phase, Since: st.Since, Until: st.Until,
		Reason: string(st.Reason), Why: st.Why, DownSince: st.DownSince, Failures: st.Streak, Checks: st.Checks,
		NextCheckAt: st.CheckAt, Parked: st.Parked,
	}
	if w := st.Window; w.Total > 0 {
		v.Window = &contract.Window{Start: w.Start, Attempts: w.Total, Failures: w.Failures}
	}
	if st.FormUntil.After(now) {
		v.SignatureForm = st.Form
	}
	return v
}

// IsInbox reports whether v is a single inbox of a server.
func IsInbox(v contract.Server) bool { return strings.HasPrefix(v.Name, inboxMark) }
