package circuit

import "time"

// News is a change of a server that becomes an event.
type News struct {
	// Phase of the server: Unhealthy, Exhausted, Gone, or Healthy if it is back.
	Phase Phase
	// Since is when the outage began or, of a server that is back, ended.
	Since time.Time
	Why   string
}

// News returns what becomes an event, and s with Told set. ok is false if nothing does. Inboxes
// have no events.
func (s State) News() (n News, told State, ok bool) {
	if _, whole := HostOf(s.Key); !whole {
		return News{}, s, false
	}
	before := s.Told
	switch s.Phase {
	case Unhealthy:
		if before == Unhealthy || before == Exhausted {
			return News{}, s, false
		}
	case Exhausted, Gone:
		if before == s.Phase {
			return News{}, s, false
		}
	case Healthy, Recovering, "":
		if s.Told = ""; before == "" {
			return News{}, s, false
		}
		return News{Phase: Healthy, Since: s.Since}, s, true
	case Blocked:
		s.Told = "" // the operator knows
		return News{}, s, false
	default:
		return News{}, s, false
	}
	s.Told = s.Phase
	n = News{Phase: s.Phase, Since: s.Since, Why: s.Why}
	if s.Phase != Gone && !s.DownSince.IsZero() {
		n.Since = s.DownSince
	}
	return n, s, true
}
