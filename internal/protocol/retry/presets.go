package retry

import (
	"errors"
	"fmt"
	"time"
)

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
