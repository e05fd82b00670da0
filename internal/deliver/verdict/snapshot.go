package verdict

import (
	"time"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
)

// Snapshot is all that a verdict about a target depends on. No function of this package
// changes one: they get pointers because it is large.
type Snapshot struct {
	Now      time.Time
	Rules    *circuit.Rules
	Policy   *retry.Policy
	Delivery Delivery
	Servers  Servers
	Found    Found
	// Random numbers in [0, 1), for the jitter of a wait.
	Random [2]float64
}

// Delivery is what the message and the ledger say, the same for all targets.
type Delivery struct {
	Ordered bool
	// Trial says that the delivery was released to try its server.
	Trial bool
	// Generation is that of the message: 0 if the delivery was never parked or revived.
	Generation int
	// Receives of the message.
	Receives int
	// Since is when the delivery became due. The caller's delay does not count, nor does
	// the time before a dead delivery was revived.
	Since time.Time
	// Revive is until when the delivery comes back to life, if it has died before.
	Revive time.Time
	// Disposable: the delivery stays dead once it dies.
	Disposable bool
	// Bodiless: the body of the activity is lost.
	Bodiless bool
}

// Servers is what the process knows of the servers on the target's way.
type Servers struct {
	// Host is the state of the target's host, Inbox that of its inbox, which matters only
	// where Decision is circuit.Wait.
	Host, Inbox circuit.State
	// By is the state that decides: that of a domain above the host, of the host, of the
	// inbox, or of the inbox and the signing key.
	By       circuit.State
	Decision circuit.Decision
}

// Found is what has to be looked for in the table, and only for a target that would be
// attempted otherwise.
type Found struct {
	// Behind is the line in which an earlier delivery of the ordering key is parked.
	Behind Line
	// Newer is what another activity about the same subject makes of this one.
	Newer coalesce.Verdict
	// Turn is when the host's rate limit lets the delivery go; zero: now. Slot is the
	// slot that was taken for it, and Due when an ordered delivery is released.
	Turn, Slot, Due time.Time
}

// Line is a line of ordered deliveries.
type Line int

// The lines: that of all inboxes of a host, and that of an inbox which has left it.
const (
	NoLine Line = iota
	HostLine
	InboxLine
)

// Target is one recipient of the delivery.
type Target struct {
	Inbox string
	// HostKey, InboxKey, HostSignedKey and SignedKey are the keys of the states of its host, of
	// its inbox, and of each with the activity's signing key.
	HostKey, InboxKey, HostSignedKey, SignedKey string
	// Tries so far that count against the policy's.
	Tries int
}

// giveUpAt is when the delivery is too old.
func (s *Snapshot) giveUpAt() time.Time { return s.Delivery.Since.Add(s.Policy.GiveUp) }

// Overdue reports whether the delivery is too old.
func (s *Snapshot) Overdue() bool { return !s.Now.Before(s.giveUpAt()) }

// OnTrial reports whether the delivery decides about the circuit of its server.
func (s *Snapshot) OnTrial() bool { return s.Delivery.Trial && s.Servers.By.Trying(s.Now) }

// ofHost reports whether the state that decides is that of the target's host.
func (s *Snapshot) ofHost() bool {
	_, whole := circuit.HostOf(s.Servers.By.Key)
	return whole
}
