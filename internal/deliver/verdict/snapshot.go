package verdict

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
)

// Snapshot is all that a verdict depends on. It is passed by pointer because it is large; no
// function of this package changes it.
type Snapshot struct {
	Now      time.Time
	Rules    *circuit.Rules
	Policy   *retry.Policy
	Delivery Delivery
	Servers  Servers
	Found    Found
	// Random has numbers in [0, 1) for jitter.
	Random [2]float64
}

// Delivery is what message and ledger say, the same for all targets.
type Delivery struct {
	Ordered bool
	// Trial says that the delivery was released as the trial of its server.
	Trial bool
	// Generation of the message: 0 if the delivery was never parked or revived.
	Generation int
	// Receives of the message.
	Receives int
	// Since is when the delivery became due: after the caller's delay, or after its last
	// revival.
	Since time.Time
	// Revive is until when the delivery may be revived again, if it was dead before.
	Revive time.Time
	// Disposable deliveries are never revived.
	Disposable bool
	// Bodiless says that the activity's body is lost.
	Bodiless bool
}

// Servers has the states of the target's servers.
type Servers struct {
	// Host is the state of the target's host, Inbox that of its inbox, which is set only if
	// Decision is circuit.Wait.
	Host, Inbox circuit.State
	// By is the state that decides: of a domain above the host, the host, the inbox, or the
	// signing key.
	By       circuit.State
	Decision circuit.Decision
}

// Found has what is read from the table, only for targets that would be attempted otherwise.
type Found struct {
	// Behind is the group in which an earlier delivery of the ordering key is parked.
	Behind Group
	// Newer is what another activity about the same subject makes of this one.
	Newer coalesce.Verdict
	// NotBefore is when the host's rate limit allows the delivery; zero: now. Slot is the slot
	// that was booked for it, and Due when an ordered delivery is released.
	NotBefore, Slot, Due time.Time
}

// Group is a group of ordered deliveries.
type Group int

// The groups: of all inboxes of a host, and of an inbox that has left that one.
const (
	NoGroup Group = iota
	HostGroup
	InboxGroup
)

// Target is one recipient of the delivery.
type Target struct {
	Inbox string
	// HostKey, InboxKey, HostSignedKey and SignedKey are the keys of the states of its host and
	// its inbox, and of each with the activity's signing key.
	HostKey, InboxKey, HostSignedKey, SignedKey string
	// Tries so far, as the policy counts them.
	Tries int
}

func (s *Snapshot) giveUpAt() time.Time { return s.Delivery.Since.Add(s.Policy.GiveUp) }

// Overdue reports whether the delivery is too old.
func (s *Snapshot) Overdue() bool { return !s.Now.Before(s.giveUpAt()) }

// OnTrial reports whether the delivery decides about the circuit of its server.
func (s *Snapshot) OnTrial() bool { return s.Delivery.Trial && s.Servers.By.Trying(s.Now) }

func (s *Snapshot) ofHost() bool {
	_, whole := circuit.HostOf(s.Servers.By.Key)
	return whole
}
