package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// hosts are the circuits of hosts and inboxes, of all protocols.
type hosts struct{ *Service }

func (hosts) protocols() []activity.Protocol {
	return []activity.Protocol{activity.ActivityPub, webhook.Name}
}

func (s hosts) nameProtocols(ctx context.Context, vs []client.Server) error {
	all, err := s.Webhooks(ctx)
	if err != nil {
		return fmt.Errorf("look for webhooks: %w", err)
	}
	at := map[string]bool{}
	for _, w := range all {
		at[activity.HostOf(w.URL)] = true
	}
	for i := range vs {
		if at[cmp.Or(vs[i].Host, vs[i].Name)] {
			vs[i].Protocol = string(webhook.Name)
		}
	}
	return nil
}

func (s hosts) Get(ctx context.Context, n Name) (client.Server, error) {
	st, err := circuit.Load(ctx, s.Hosts, n.Key)
	if err != nil {
		return client.Server{}, err
	}
	return first(s.shown(ctx, st))
}

func first(vs []client.Server, err error) (client.Server, error) {
	if err != nil {
		return client.Server{}, err
	}
	return vs[0], nil
}

// shown are servers as operators see them.
func (s hosts) shown(ctx context.Context, states ...circuit.State) ([]client.Server, error) {
	vs, err := s.withLimits(ctx, states...)
	if err == nil {
		err = s.nameProtocols(ctx, vs)
	}
	if err == nil {
		err = s.blockedAbove(ctx, states, vs)
	}
	return vs, err
}

// blockedAbove shows servers as blocked if their host is blocked, or a domain above with its
// subdomains. vs are the views of states.
func (s hosts) blockedAbove(ctx context.Context, states []circuit.State, vs []client.Server) error {
	above := make([][]string, len(states))
	keys := map[string]bool{}
	for i, st := range states {
		if _, family := circuit.FamilyOf(st.Key); family || vs[i].Phase == client.PhaseBlocked {
			continue
		}
		host, _ := circuit.HostOf(st.Key)
		for _, key := range circuit.Above(host) {
			if key != st.Key {
				above[i] = append(above[i], key)
				keys[key] = true
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := s.Hosts.Servers(ctx, slices.Sorted(maps.Keys(keys))...)
	if err != nil {
		return fmt.Errorf("look for blocks above: %w", err)
	}
	for i := range vs {
		for _, key := range above[i] {
			if b := found[key]; b.Phase == circuit.Blocked {
				vs[i].Phase, vs[i].Since, vs[i].Until = client.PhaseBlocked, b.Since, time.Time{}
				vs[i].Why = "blocked by " + nameOf(key)
				if b.Why != "" {
					vs[i].Why += ": " + b.Why
				}
				break
			}
		}
	}
	return nil
}

// page returns a page of hosts and inboxes, with their rate limits.
func (s hosts) page(ctx context.Context, f Filter, cursor string, limit int) ([]client.Server, string, error) {
	states, next, err := s.Hosts.ListServers(ctx, cursor, limit)
	if errors.Is(err, circuit.ErrCursor) {
		return nil, "", fmt.Errorf("%w: %w", ErrBadCursor, err)
	}
	if err != nil {
		return nil, "", err
	}
	vs, err := s.shown(ctx, states...)
	return slices.DeleteFunc(vs, func(v client.Server) bool { return !f.matches(v) }), next, err
}

// withLimits are the views of states with the limits that are in force.
func (s hosts) withLimits(ctx context.Context, states ...circuit.State) ([]client.Server, error) {
	var limited []string
	for _, st := range states {
		if host, whole := circuit.HostOf(st.Key); whole && st.Limited(s.Now()) > 0 {
			limited = append(limited, host)
		}
	}
	limits := map[string]ratelimit.Limit{}
	if len(limited) > 0 {
		var err error
		if limits, err = s.Limits.Store.Limits(ctx, limited...); err != nil {
			return nil, err
		}
	}
	vs := make([]client.Server, len(states))
	for i, st := range states {
		vs[i] = s.view(st)
		host, _ := circuit.HostOf(st.Key)
		if l, ok := limits[host]; ok && l.InForce(s.Now()) {
			vs[i].RateLimit = limitOf(l)
		}
	}
	return vs, nil
}

func limitOf(l ratelimit.Limit) *client.RateLimit {
	return &client.RateLimit{PerMinute: l.PerMinute, Burst: l.Burst, Learnt: !l.LearntAt.IsZero(), Until: l.Until}
}

// view is the state of a circuit now, without a pause that is over.
func (s hosts) view(st circuit.State) client.Server {
	now := s.Now()
	st = st.Settled(now)
	v := client.Server{
		Name: nameOf(st.Key), KeyID: st.KeyID, Protocol: string(activity.ActivityPub), Phase: client.Phase(st.Phase), Since: st.Since, Until: st.Until,
		Reason: string(st.Reason), Why: st.Why, DownSince: st.DownSince, Failures: st.Streak, Checks: st.Checks,
		NextCheckAt: st.CheckAt, Parked: st.Parked,
	}
	if host, whole := circuit.HostOf(st.Key); !whole {
		v.Host = host
	}
	if w := st.Window; w.Total > 0 {
		v.Window = &client.Window{Start: w.Start, Attempts: w.Total, Failures: w.Failures}
	}
	if st.FormUntil.After(now) {
		v.SignatureForm = st.Form
	}
	return v
}

func (s hosts) Block(ctx context.Context, n Name, why string) (client.Server, error) {
	if host, ok := circuit.FamilyOf(n.Key); ok {
		if _, err := s.Block(ctx, Name{Key: circuit.HostKey(host)}, why); err != nil {
			return client.Server{}, err
		}
	} else if err := whole(n, "blocking"); err != nil {
		return client.Server{}, err
	}
	return s.change(ctx, n, func(st circuit.State) circuit.State { return st.Block(s.Rules, why, s.Now()) })
}

func (s hosts) Unblock(ctx context.Context, n Name) (client.Server, error) {
	if host, ok := circuit.FamilyOf(n.Key); ok {
		if _, err := s.Unblock(ctx, Name{Key: circuit.HostKey(host)}); err != nil {
			return client.Server{}, err
		}
	}
	return s.change(ctx, n, func(st circuit.State) circuit.State { return st.Unblock(s.Rules, s.Now()) })
}

func (s hosts) Pause(ctx context.Context, n Name, until time.Time, why string) (client.Server, error) {
	return s.changeUnblocked(ctx, n, whole(n, "pausing"), func(st circuit.State) circuit.State { return st.Pause(s.Rules, until, why, s.Now()) })
}

func (s hosts) Resume(ctx context.Context, n Name) (client.Server, error) {
	return s.changeUnblocked(ctx, n, single(n, "resuming"), func(st circuit.State) circuit.State { return st.Resume(s.Rules, s.Now()) })
}

func (s hosts) Check(ctx context.Context, n Name) (client.Server, error) {
	return s.changeUnblocked(ctx, n, single(n, "checking"), func(st circuit.State) circuit.State { return st.CheckNow(s.Rules, s.Now()) })
}

func (s hosts) Limit(ctx context.Context, n Name, perMinute, burst int) (client.Server, error) {
	if err := whole(n, "a rate limit"); err != nil {
		return client.Server{}, err
	}
	host, _ := n.host()
	// First the limit: workers read it once the state says so.
	if _, err := s.Limits.Set(ctx, host, perMinute, burst); err != nil {
		return client.Server{}, err
	}
	return s.change(ctx, n, func(st circuit.State) circuit.State { return st.LimitTo(s.Rules, perMinute, s.Now()) })
}

func (hosts) Pin(context.Context, Name, client.SipherKeys) (client.Server, error) {
	return client.Server{}, fmt.Errorf("pinning keys %w to a host of the fediverse", ErrNotApplicable)
}

// whole returns an error unless n is a whole host. what names an action that is not possible for
// inboxes, whose records workers do not always read.
func whole(n Name, what string) error {
	if _, ok := n.host(); !ok {
		return fmt.Errorf("%s %w to a single inbox: name its host", what, ErrNotApplicable)
	}
	return single(n, what)
}

// single returns an error if n is a host with its subdomains, which can only be blocked. what names the
// action.
func single(n Name, what string) error {
	if host, ok := circuit.FamilyOf(n.Key); ok {
		return fmt.Errorf("%s %w to subdomains, which can be blocked only: name one host, such as %s", what, ErrNotApplicable, host)
	}
	return nil
}

// changeUnblocked applies f to a circuit that is not blocked, unless refusal is an error.
func (s hosts) changeUnblocked(ctx context.Context, n Name, refusal error, f func(circuit.State) circuit.State) (client.Server, error) {
	if refusal != nil {
		return client.Server{}, refusal
	}
	v, err := s.change(ctx, n, func(st circuit.State) circuit.State {
		if st.Phase == circuit.Blocked {
			return st
		}
		return f(st)
	})
	if err == nil && v.Phase == client.PhaseBlocked {
		return client.Server{}, fmt.Errorf("%s: %w", n, ErrBlocked)
	}
	return v, err
}

// change applies f to a circuit.
func (s hosts) change(ctx context.Context, n Name, f func(circuit.State) circuit.State) (client.Server, error) {
	_, after, err := circuit.Change(ctx, s.Hosts, n.Key, f)
	if err != nil {
		return client.Server{}, err
	}
	return first(s.withLimits(ctx, after))
}

func (s hosts) Forget(ctx context.Context, n Name) error {
	st, err := circuit.Load(ctx, s.Hosts, n.Key)
	switch {
	case err != nil:
		return err
	case st.Version == "":
		return ErrNoRecord
	case st.Parked:
		return ErrParked
	}
	if host, whole := n.host(); whole {
		// First the limit: workers read it only while the state says so.
		if _, err := s.Limits.Set(ctx, host, 0, 0); err != nil {
			return err
		}
	}
	return s.Hosts.DropServer(ctx, st)
}
