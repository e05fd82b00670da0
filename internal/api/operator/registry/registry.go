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
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// Server is what there is to know of one server.
type Server struct {
	// Name is as ParseName reads it.
	Name     string            `json:"server"`
	Protocol activity.Protocol `json:"protocol"`
	Phase    circuit.Phase     `json:"phase"`
	Since    time.Time         `json:"since,omitzero"` // of this phase
	Until    time.Time         `json:"until,omitzero"` // when a pause, or the belief that it is gone, ends
	// Reason is the class of the last fault, and Why is it in words.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`

	DownSince   time.Time `json:"downSince,omitzero"` // begin of the present outage
	Failures    int       `json:"failuresInARow,omitempty"`
	Window      *Window   `json:"window,omitempty"`
	Checks      int       `json:"failedChecks,omitempty"` // of the present outage
	NextCheckAt time.Time `json:"nextCheckAt,omitzero"`   // or next release
	// Parked: deliveries may wait for it.
	Parked bool `json:"parked,omitempty"`

	SignatureForm string     `json:"signatureForm,omitempty"`
	RateLimit     *RateLimit `json:"rateLimit,omitempty"`

	// Keys and RefusedKeys are of a Sipher server: the pinned ones, and others
	// that it has shown since.
	Keys        *Keys        `json:"keys,omitempty"`
	RefusedKeys *RefusedKeys `json:"refusedKeys,omitempty"`
	LastSeen    time.Time    `json:"lastSeen,omitzero"`
}

// Window is what deliveries came to lately.
type Window struct {
	Start    time.Time `json:"start"`
	Attempts int       `json:"attempts"`
	Failures int       `json:"failures"`
}

// RateLimit is how many deliveries a minute a server gets.
type RateLimit struct {
	PerMinute int       `json:"perMinute"`
	Burst     int       `json:"burst,omitempty"`
	Learnt    bool      `json:"learnt,omitempty"` // from its 429 answers, not set
	Until     time.Time `json:"until,omitzero"`
}

// Keys are a Sipher server's public keys in base64.
type Keys struct {
	Signing    string `json:"publicKey"`
	Encryption string `json:"encryptionPublicKey"`
}

// RefusedKeys are keys that a Sipher server showed in place of its pinned ones.
type RefusedKeys struct {
	Keys
	Via       string    `json:"via"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`
	Count     int       `json:"count"`
}

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
func (s *Service) Get(ctx context.Context, n Name) (Server, error) {
	if n.Protocol == activity.Sipher {
		return s.sipher(ctx, n.URL)
	}
	st, err := circuit.Load(ctx, s.Hosts, n.Key)
	if err != nil {
		return Server{}, err
	}
	return s.withLimit(ctx, st)
}

// withLimit is st with the rate limit of its host.
func (s *Service) withLimit(ctx context.Context, st circuit.State) (Server, error) {
	v := s.view(st)
	host, whole := circuit.HostOf(st.Key)
	if !whole || st.Limited(s.Now()) == 0 {
		return v, nil
	}
	l, ok, err := s.Limits.Limit(ctx, host)
	if err != nil {
		return Server{}, err
	}
	if ok {
		v.RateLimit = limitOf(l)
	}
	return v, nil
}

func limitOf(l ratelimit.Limit) *RateLimit {
	return &RateLimit{PerMinute: l.PerMinute, Burst: l.Burst, Learnt: !l.LearntAt.IsZero(), Until: l.Until}
}

// view is a circuit as it stands now: a pause that is over is not shown as one.
func (s *Service) view(st circuit.State) Server {
	now := s.Now()
	st = st.Settled(now)
	v := Server{
		Name: nameOf(st.Key), Protocol: activity.ActivityPub, Phase: st.Phase, Since: st.Since, Until: st.Until,
		Reason: string(st.Reason), Why: st.Why, DownSince: st.DownSince, Failures: st.Streak, Checks: st.Checks,
		NextCheckAt: st.CheckAt, Parked: st.Parked,
	}
	if w := st.Window; w.Total > 0 {
		v.Window = &Window{Start: w.Start, Attempts: w.Total, Failures: w.Failures}
	}
	if st.FormUntil.After(now) {
		v.SignatureForm = st.Form
	}
	return v
}

// Inbox reports whether it is a single inbox of a server.
func (v Server) Inbox() bool { return strings.HasPrefix(v.Name, inboxMark) }
