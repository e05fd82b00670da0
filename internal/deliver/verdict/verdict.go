// Package verdict decides what becomes of a target: before an attempt by the states of its
// servers (Decide), after it by its outcome (Classify).
//
// Both are pure functions of a Snapshot, so "why is this delivery parked?" is a row of a table
// test. A Verdict that waits says why, for whom and until when.
package verdict

import (
	"time"

	"fedpost/internal/activity"
)

// Verdict is what becomes of a target: one of the types below.
type Verdict interface{ state() activity.State }

type (
	// Attempt: the target is attempted now.
	Attempt struct{}
	// NotNow: the attempt has not begun, because the invocation ends or the activity is
	// cancelled. Nothing is recorded, and the message comes back.
	NotNow struct{}
	// Delivered: the inbox has accepted it.
	Delivered struct{}
	// Refused: the recipient has failed for good. Why: empty after an attempt.
	Refused struct{ Why string }
	// Redundant: the inbox has what the activity says already, by another activity.
	Redundant struct{ By activity.ID }
	// Superseded: a newer activity replaces it.
	Superseded struct{ By activity.ID }
	// Dead: it is given up.
	Dead struct {
		// Reason in one word, such as "exhausted".
		Reason string
		Why    string
		// Revive is until when the delivery is revived if its server comes back; zero: never.
		Revive time.Time
	}
	// Again: its message is on the queue until Wait.Until.
	Again struct {
		Wait
		// Slot is reserved for it under a rate limit; zero: none is.
		Slot time.Time
	}
	// Park: it waits in a lot.
	Park struct {
		Wait
		// Under is the key of the server or inbox in whose lot it waits.
		Under string
		// Held says that its host accepts other deliveries: it is the head of an ordered group,
		// or waits behind the head.
		Held bool
		// Alone says that it waits in the ordered group of its inbox, and not of its host.
		Alone bool
		// Due is when it is released by itself; zero: with the others of its lot.
		Due time.Time
		// Slot is reserved for it under a rate limit; zero: none is.
		Slot time.Time
	}
)

func (Attempt) state() activity.State    { return "" }
func (NotNow) state() activity.State     { return "" }
func (Delivered) state() activity.State  { return activity.Delivered }
func (Refused) state() activity.State    { return activity.Failed }
func (Redundant) state() activity.State  { return activity.Redundant }
func (Superseded) state() activity.State { return activity.Superseded }
func (Dead) state() activity.State       { return activity.Dead }
func (Again) state() activity.State      { return activity.Retrying }
func (Park) state() activity.State       { return activity.Parked }

// State returns the state of a recipient with a verdict; empty if nothing is recorded.
func State(v Verdict) activity.State {
	if v == nil {
		return ""
	}
	return v.state()
}

// Wait says why a delivery waits, for whom and until when. Only this package makes one.
type Wait struct {
	cause cause
	why   string
	whom  string
	until time.Time
}

// cause is why a delivery waits.
type cause int

const (
	circuitOpen  cause = iota // the server's state says why
	attemptMade               // the outcome of the last attempt says why
	groupOrder                // an earlier delivery of its group is not final
	rateLimit                 // its host gets no more at once
	noPlace                   // too many attempts are under way
	otherSending              // another delivery to its inbox may be under way
)

// Why is the reason in words.
func (w Wait) Why() string { return w.why }

// For is the key of the host or inbox that is waited for.
func (w Wait) For() string { return w.whom }

// Until is when the delivery, or its server, is looked at next.
func (w Wait) Until() time.Time { return w.until }

// Note is the Note of the record: empty if the record's last error, or the server's state, has
// it.
func (w Wait) Note() string {
	switch w.cause {
	case rateLimit, noPlace, otherSending:
		return w.why
	}
	return ""
}
