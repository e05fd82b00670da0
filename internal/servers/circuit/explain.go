package circuit

import (
	"cmp"
	"strconv"
	"time"

	"fedpost/internal/activity/outcome"
)

// Explain says why a delivery waits for the server, such as "connection refused since 09:11
// UTC".
func (s State) Explain(now time.Time) string {
	switch s := s.Settled(now); s.Phase {
	case Unhealthy, Exhausted:
		return s.Trouble() + " since " + clock(cmp.Or(s.DownSince, s.Since), now)
	case HalfOpen:
		return "one delivery is on trial; the fault before: " + s.Trouble()
	case Recovering:
		return "back since " + clock(s.Since, now) + "; what waits is released step by step"
	case Paused:
		return s.pauseInWords(now)
	case Gone:
		return "gone: " + s.Why
	case Blocked:
		return "blocked, so this ends within a minute: " + s.Why
	}
	if limit := s.Limited(now); limit > 0 {
		return "gets " + strconv.Itoa(limit) + " deliveries a minute"
	}
	return "accepts deliveries; this one waits to be released"
}

func (s State) pauseInWords(now time.Time) string {
	if s.Until.IsZero() {
		return cmp.Or(s.Why, "paused") + ", until it is resumed"
	}
	return cmp.Or(s.Why, "paused") + ", until " + clock(s.Until, now)
}

// Trouble is the fault of a server: its kind, or what it answered.
func (s State) Trouble() string {
	return cmp.Or(inWords[s.Reason], s.Why, "no delivery accepted")
}

var inWords = map[outcome.Reason]string{
	outcome.Timeout:       "no answer in time",
	outcome.DNS:           "its name does not resolve",
	outcome.ConnRefused:   "connection refused",
	outcome.ConnReset:     "connection reset",
	outcome.TLS:           "TLS handshake failed",
	outcome.BlockedAddr:   "its address is not allowed",
	outcome.InvalidAnswer: "invalid answer",
}

func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04 UTC")
	}
	return at.Format("2006-01-02 15:04 UTC")
}
