package circuit

import "time"

// Transition is a change of a server that becomes an event.
type Transition struct {
	// Phase of the server: Unhealthy, Exhausted, Gone, or Healthy if it is back.
	Phase Phase
	// Since is when the outage began or, of a server that is back, ended.
	Since time.Time
	Why   string
}

// Transition returns what becomes an event, and s with LastEvent set. ok is false if nothing
// does. Inboxes have no events.
func (s State) Transition() (t Transition, after State, ok bool) {
	if _, whole := HostOf(s.Key); !whole {
		return Transition{}, s, false
	}
	before := s.LastEvent
	switch s.Phase {
	case Unhealthy:
		if before == Unhealthy || before == Exhausted {
			return Transition{}, s, false
		}
	case Exhausted, Gone:
		if before == s.Phase {
			return Transition{}, s, false
		}
	case Healthy, Recovering, "":
		if s.LastEvent = ""; before == "" {
			return Transition{}, s, false
		}
		return Transition{Phase: Healthy, Since: s.Since}, s, true
	case Blocked:
		s.LastEvent = "" // the operator knows
		return Transition{}, s, false
	default:
		return Transition{}, s, false
	}
	s.LastEvent = s.Phase
	t = Transition{Phase: s.Phase, Since: s.Since, Why: s.Why}
	if s.Phase != Gone && !s.DownSince.IsZero() {
		t.Since = s.DownSince
	}
	return t, s, true
}
