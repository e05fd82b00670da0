package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// Filter selects servers: those that match all that is set.
type Filter struct {
	Phase    circuit.Phase
	Protocol activity.Protocol
}

func (f Filter) matches(v contract.Server) bool {
	return (f.Phase == "" || f.Phase == v.Phase) && (f.Protocol == "" || f.Protocol == v.Protocol)
}

// Phases lists the phases that a server may be shown in.
var Phases = []circuit.Phase{
	circuit.Healthy, circuit.Unhealthy, circuit.HalfOpen, circuit.Recovering, circuit.Paused, circuit.Exhausted, circuit.Gone, circuit.Blocked,
}

// mostReads is how often the table is asked for one page: a rare phase among
// many servers takes several calls.
const mostReads = 50

// List pages through the servers that anything is recorded of: hosts and
// inboxes in no order, then Sipher servers by URL. A page may be shorter than
// limit and not the last; next is empty after the last.
func (s *Service) List(ctx context.Context, f Filter, cursor string, limit int) (vs []contract.Server, next string, err error) {
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	vs = []contract.Server{}
	if f.Protocol == activity.Sipher && !at.sipher {
		at = place{sipher: true}
	}
	for reads := 0; !at.sipher; reads++ {
		if len(vs) >= limit || reads == mostReads {
			return vs, at.String(), nil
		}
		page, after, err := s.circuits(ctx, at.after, limit-len(vs))
		if err != nil {
			return nil, "", err
		}
		for _, v := range page {
			if f.matches(v) {
				vs = append(vs, v)
			}
		}
		at = place{after: after, sipher: after == ""}
	}
	if f.Protocol == activity.ActivityPub {
		return vs, "", nil
	}
	all, err := s.siphers(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, v := range all {
		if v.Name <= at.after || !f.matches(v) {
			continue
		}
		if len(vs) >= limit {
			return vs, at.String(), nil
		}
		vs = append(vs, v)
		at.after = v.Name
	}
	return vs, "", nil
}

// circuits returns a page of hosts and inboxes, with their rate limits.
func (s *Service) circuits(ctx context.Context, cursor string, limit int) ([]contract.Server, string, error) {
	states, next, err := s.Hosts.ListServers(ctx, cursor, limit)
	if errors.Is(err, circuit.ErrCursor) {
		return nil, "", fmt.Errorf("%w: %w", ErrBadCursor, err)
	}
	if err != nil {
		return nil, "", err
	}
	var limited []string
	for _, st := range states {
		if host, whole := circuit.HostOf(st.Key); whole && st.Limited(s.Now()) > 0 {
			limited = append(limited, host)
		}
	}
	limits := map[string]ratelimit.Limit{}
	if len(limited) > 0 {
		if limits, err = s.Limits.Store.Limits(ctx, limited...); err != nil {
			return nil, "", err
		}
	}
	vs := make([]contract.Server, len(states))
	for i, st := range states {
		vs[i] = s.view(st)
		host, _ := circuit.HostOf(st.Key)
		if l, ok := limits[host]; ok && l.InForce(s.Now()) {
			vs[i].RateLimit = limitOf(l)
		}
	}
	return vs, next, nil
}

// place is where a list goes on: after a cursor of the circuits, or after a URL
// among the Sipher servers.
type place struct {
	sipher bool
	after  string
}

const (
	circuitMark = "c "
	sipherMark  = "s "
)

// String is a cursor, written so that nobody is tempted to make one.
func (p place) String() string {
	mark := circuitMark
	if p.sipher {
		mark = sipherMark
	}
	return base64.RawURLEncoding.EncodeToString([]byte(mark + p.after))
}

func parseCursor(s string) (place, error) {
	if s == "" {
		return place{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return place{}, ErrBadCursor
	}
	if after, ok := strings.CutPrefix(string(b), circuitMark); ok {
		return place{after: after}, nil
	}
	if after, ok := strings.CutPrefix(string(b), sipherMark); ok {
		return place{sipher: true, after: after}, nil
	}
	return place{}, ErrBadCursor
}
