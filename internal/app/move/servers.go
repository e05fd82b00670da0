package move

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// server is the record of a host, of a host's subdomains or of an inbox.
type server struct {
	Key     string           `json:"of"`
	CheckAt time.Time        `json:"checkAt,omitzero"`
	State   circuit.State    `json:"state"`
	Limit   *ratelimit.Limit `json:"limit,omitempty"`
}

// servers exports the records from which another installation can learn.
func (from Installation) servers(ctx context.Context, cursor string) (found []thing, next string, err error) {
	all, next, err := from.store.ListServers(ctx, cursor, page)
	for _, s := range all {
		moved, ok := s.Moved(from.now())
		if !ok {
			continue
		}
		one := server{Key: moved.Key, CheckAt: moved.CheckAt, State: moved}
		if one.Limit, err = from.limitOf(ctx, moved); err != nil {
			return nil, "", err
		}
		found = append(found, one)
	}
	return found, next, err
}

// limitOf is the limit of a state's host, without its use; nil: none.
func (from Installation) limitOf(ctx context.Context, s circuit.State) (*ratelimit.Limit, error) {
	host, whole := circuit.HostOf(s.Key)
	if !whole || s.Limited(from.now()) == 0 {
		return nil, nil
	}
	l, ok, err := from.limits.Limit(ctx, host)
	if err != nil || !ok {
		return nil, err
	}
	l.Arrival = time.Time{}
	return &l, nil
}

func (server) kind() kind { return serverKind }

func (s server) name() string { return s.Key }

// phases are those that an export has.
var phases = map[circuit.Phase]bool{
	circuit.Healthy: true, circuit.Unhealthy: true, circuit.Exhausted: true, circuit.Paused: true, circuit.Gone: true, circuit.Blocked: true,
}

func (s server) check() error {
	if host, _ := circuit.HostOf(s.Key); host == "" || !strings.HasPrefix(s.Key, circuit.HostKey("")) && !strings.HasPrefix(s.Key, circuit.InboxKey("")) {
		return fmt.Errorf("%w: %.200q names no server", ErrNotExport, s.Key)
	}
	if !phases[s.State.Phase] || s.State.Rate < 0 {
		return fmt.Errorf("%w: the state of %s is none", ErrNotExport, s.Key)
	}
	if l := s.Limit; l != nil && (l.PerMinute <= 0 || l.Burst < 0 || l.Step < 0) {
		return fmt.Errorf("%w: the limit of %s is none", ErrNotExport, s.Key)
	}
	return nil
}

// state is the record as circuit has it.
func (s server) state() circuit.State {
	st := s.State
	st.Key, st.CheckAt = s.Key, s.CheckAt
	return st
}

// An operator's settings for a server are a pause or block, and a limit. Learnt state of the file is
// dropped where the installation has its own.

func stopped(s circuit.State) bool { return s.Phase == circuit.Blocked || s.PausedByOperator() }

func limited(s circuit.State) bool { return s.Rate > 0 && !s.RateLearnt }

func (s server) stands(ctx context.Context, to Installation) (standing, error) {
	there, err := circuit.Load(ctx, to.store, s.Key)
	if err != nil {
		return absent, err
	}
	mine, known := s.state().Settled(to.now()), there.Version != ""
	there = there.Settled(to.now())
	var all []standing
	if stopped(mine) {
		all = append(all, compare(stopped(there), there.Phase == mine.Phase && there.Why == mine.Why && there.Until.Equal(mine.Until)))
	}
	if limited(mine) {
		l, err := to.limitOf(ctx, there)
		if err != nil {
			return absent, err
		}
		all = append(all, compare(limited(there), l != nil && s.Limit != nil && l.PerMinute == s.Limit.PerMinute && l.Burst == s.Limit.Burst))
	}
	if len(all) == 0 {
		if known {
			return own, nil
		}
		return absent, nil
	}
	worst := same
	for _, one := range all {
		if one == differs || one == absent && worst == same {
			worst = one
		}
	}
	return worst, nil
}

func compare(there, equal bool) standing {
	switch {
	case !there:
		return absent
	case equal:
		return same
	}
	return differs
}

// write adds the whole record if there is none, else an operator's settings. The limit comes first:
// workers read it once the state says so.
func (s server) write(ctx context.Context, to Installation, _ bool) error {
	mine := s.state()
	if err := s.writeLimit(ctx, to); err != nil {
		return err
	}
	_, _, err := circuit.Change(ctx, to.store, s.Key, func(there circuit.State) circuit.State {
		now := to.now()
		if there.Version == "" {
			there = mine.Taken(rules, now)
		}
		return s.set(there, now)
	})
	return err
}

// set applies an operator's settings to a state, with all effects on waiting deliveries.
func (s server) set(there circuit.State, now time.Time) circuit.State {
	mine := s.state()
	if mine.Phase == circuit.Blocked {
		there = there.Block(rules, mine.Why, now)
		there.Since = mine.Since
	}
	if mine.PausedByOperator() && (mine.Until.IsZero() || mine.Until.After(now)) {
		there = there.Unblock(rules, now).Pause(rules, mine.Until, mine.Why, now)
		there.Since = mine.Since
	}
	if limited(mine) {
		there = there.LimitTo(rules, mine.Rate, now)
	}
	return there
}

func (s server) writeLimit(ctx context.Context, to Installation) error {
	host, whole := circuit.HostOf(s.Key)
	if s.Limit == nil || !whole {
		return nil
	}
	if limited(s.State) {
		_, err := to.limits.Set(ctx, host, s.Limit.PerMinute, s.Limit.Burst)
		return err
	}
	found, err := to.store.Limits(ctx, host)
	if err != nil {
		return err
	}
	if _, known := found[host]; known {
		return nil
	}
	l := *s.Limit
	l.Host, l.Version, l.Forget = host, "", l.Until
	_, err = to.store.SaveLimit(ctx, l)
	return err
}
