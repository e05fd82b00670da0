// Package retry decides when a failed delivery is tried again, and when it is given up. A policy is data:
// a delivery gets a few quick tries on the queue, with a growing back-off; then it is either parked for
// days (ActivityPub) or fails for good (Sipher, LDP).
package retry

import (
	"errors"
	"fmt"
	"math"
	"time"

	"fedpost/internal/activity/outcome"
)

// Policy says how often and when a delivery is tried.
type Policy struct {
	Name string
	// Tries is the number of quick attempts, the first included.
	Tries int
	// First is the wait after the first failure; each further wait is Factor times the last.
	First  time.Duration
	Factor float64
	// Jitter is the fraction by which each wait varies at random, up or down, so that the deliveries
	// to one failed host do not all return at once.
	Jitter float64
	// Park: after the quick tries a delivery is parked; else it is exhausted.
	Park bool
	// GiveUp is the age at which a parked delivery becomes a dead letter.
	GiveUp time.Duration
	// NetworkOnly: only time-outs and connection errors are tried again.
	NetworkOnly bool
	// Circuit: a delivery is sent only if the circuit of the host is closed.
	Circuit bool
	// Timeout is the time for one attempt; 0: the timeout of the HTTP client.
	Timeout time.Duration
	// ExhaustedStatus is the HTTP status to record for an exhausted delivery without any answer; 0:
	// none.
	ExhaustedStatus int
}

// MaxWait is the longest wait of a policy: queue.MaxDelay, because a queue would shorten a longer wait.
const MaxWait = 15 * time.Minute

// Wait returns the back-off after a number of failed attempts, counted from 1: between 0 and MaxWait.
// random is a random number in [0, 1) for the jitter.
func (p Policy) Wait(attempts int, random float64) time.Duration {
	attempts = max(attempts, 1)
	wait := float64(p.First) * math.Pow(p.Factor, float64(attempts-1))
	wait *= 1 + p.Jitter*(2*random-1)
	if math.IsNaN(wait) || wait < 0 {
		return 0
	}
	// The comparison is in floats, because a large wait would overflow a Duration.
	if wait > float64(MaxWait) {
		return MaxWait
	}
	return time.Duration(wait)
}

// doubts is how often a delivery with Doubtful outcomes is tried.
const doubts = 3

// doubtful multiplies the wait after a Doubtful outcome: the other server may have to fetch something,
// such as the actor, first.
const doubtful = 6

// Again reports whether a delivery with this outcome may be tried again after a number of tries.
func (p Policy) Again(o outcome.Outcome, tries int) bool {
	if p.NetworkOnly && (o.Status != 0 || o.Reason == outcome.ReasonNone) {
		return false
	}
	switch o.Class {
	case outcome.Retry, outcome.Throttled, outcome.Unverified:
		return true
	case outcome.Doubtful:
		return tries < doubts
	}
	return false
}

// WaitAfter is Wait, made longer after a Doubtful outcome, up to MaxWait.
func (p Policy) WaitAfter(o outcome.Outcome, attempts int, random float64) time.Duration {
	wait := p.Wait(attempts, random)
	if o.Class == outcome.Doubtful {
		return min(wait*doubtful, MaxWait)
	}
	return wait
}

// Left returns how many quick tries are left after a number of attempts.
func (p Policy) Left(attempts int) int { return max(0, p.Tries-attempts) }

// ErrPolicy says that a policy cannot work as configured.
var ErrPolicy = errors.New("retry policy")

// ActivityPub is the default policy: five tries within a minute and a half; then the delivery is parked
// for up to a week, as Mastodon gives up on a host after seven days.
func ActivityPub() Policy {
	return Policy{
		Name: "activitypub", Tries: 5, First: 5 * time.Second, Factor: 2, Jitter: 0.2,
		Park: true, GiveUp: 7 * 24 * time.Hour, Circuit: true,
	}
}

// Sipher tries five times, with waits of 5, 10, 20 and 40 s, and then gives up. It uses no circuits: the
// protocol reaches a server that is down through other servers.
func Sipher() Policy {
	return Policy{
		Name: "sipher", Tries: 5, First: 5 * time.Second, Factor: 2, GiveUp: 7 * 24 * time.Hour,
	}
}

// LDP tries four times, with waits of 0.5, 1 and 2 s, and only if no answer came. If none ever comes, it
// records status 408.
func LDP() Policy {
	return Policy{
		Name: "ldp", Tries: 4, First: 500 * time.Millisecond, Factor: 2,
		GiveUp: 7 * 24 * time.Hour, NetworkOnly: true, Timeout: 10 * time.Second, ExhaustedStatus: 408,
	}
}

// Names lists the presets, as configuration spells them.
var Names = []string{"activitypub", "sipher", "ldp"}

// Preset returns a preset by name. Its error wraps ErrPolicy.
func Preset(name string) (Policy, error) {
	for _, p := range []Policy{ActivityPub(), Sipher(), LDP()} {
		if p.Name == name {
			return p, nil
		}
	}
	return Policy{}, fmt.Errorf("%w: no preset %q; there are %v", ErrPolicy, name, Names)
}

// Validate returns an error, which wraps ErrPolicy and names the first wrong field, if p cannot work.
func (p Policy) Validate() error {
	for _, c := range []struct {
		bad bool
		say string
	}{
		{p.Tries < 1, "tries must be at least 1"},
		{p.First < 0 || p.First > MaxWait, "first wait must be between 0 and 15 minutes, the longest delay of a queue"},
		{p.Factor < 1, "factor must be at least 1"},
		{p.Jitter < 0 || p.Jitter >= 1, "jitter must be at least 0 and below 1"},
		{p.GiveUp <= 0, "give-up time must be positive"},
		{p.Timeout < 0, "timeout must not be negative"},
		{p.Park && !p.Circuit, "parking needs the circuit, which releases parked deliveries"},
	} {
		if c.bad {
			return fmt.Errorf("%w %s: %s", ErrPolicy, p.Name, c.say)
		}
	}
	return nil
}
