package circuit

import "time"

// News is a change of a server that its operator's application is told of.
type News struct {
	// Phase that the server is in: Unhealthy, Exhausted, Gone, or Healthy if it is back.
	Phase Phase
	// Since is when the outage began or, of a server that is back, ended.
	Since time.Time
	Why   string
}

// News returns what is to be told of s, and s with a note of what was told. ok is false if
// nothing is: the application was told of this phase, or the phase is none of its business.
// Inboxes with circuits of their own make no news.
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
		s.Told = "" // by the operator, who knows
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
