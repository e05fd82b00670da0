// Package coalesce decides which deliveries need not be sent: because a newer
// activity says it better, or because the inbox has this state already.
//
// The rules are three, applied in this order when a delivery is about to be
// sent. They compare what activities say (Statement), never their text, so a
// body is parsed once and the rest is comparing keys and digests.
//
//   - Superseded: a strictly newer activity was accepted for the same inbox, of
//     the same group and about the same object (and target). So the newest of a
//     burst wins.
//   - No news: an update says what the activity delivered last to that inbox
//     about that object said.
//   - Already known: an add or remove is of the type that was delivered last to
//     that inbox for that object and target.
//
// Delivered means answered with 2xx: a failed attempt makes nothing redundant.
package coalesce

import (
	"time"

	"fedpost/internal/activity"
)

// Group is a set of activity types that supersede each other.
type Group string

// The groups. Other types are never redundant.
const (
	Lifecycle  Group = "lifecycle"  // create, update, delete, creation, deletion
	Membership Group = "membership" // add, remove
)

// groups by type, lower-cased.
var groups = map[string]Group{
	"create": Lifecycle, "update": Lifecycle, "delete": Lifecycle, "creation": Lifecycle, "deletion": Lifecycle,
	"add": Membership, "remove": Membership,
}

// Subject is what activities have to share to supersede each other.
type Subject struct {
	Group  Group
	Object string // id
	// Target is the id of where something is added to or removed from; empty in
	// Lifecycle, and if the activity has neither target nor origin.
	Target string
}

// Statement is what an activity says.
type Statement struct {
	Subject
	Type string // lower-cased
	// Content is a digest of the object, equal for objects that are deeply equal
	// but for the order of keys; empty if the object is a mere id.
	Content string
}

func (s Statement) creates() bool { return s.Type == "create" || s.Type == "creation" }

// Accepted is an activity that was accepted for delivery.
type Accepted struct {
	ID   activity.ID `json:"id"`
	At   time.Time   `json:"at"`
	Type string      `json:"type"` // lower-cased
	// CoalesceCreate: its caller lets updates supersede creates.
	CoalesceCreate bool `json:"create,omitempty"`
}

// Delivered is the activity that was delivered last to an inbox about a subject.
type Delivered struct {
	ID      activity.ID `json:"id"`
	Type    string      `json:"type"` // lower-cased
	Content string      `json:"content,omitempty"`
}

// Verdict says why a delivery need not be sent.
type Verdict struct {
	State activity.State // Superseded or Redundant
	By    activity.ID    // the activity that made it so
}

// Judge returns whether the delivery of own, which says s, to some inbox is
// needless: newer are the activities accepted for that inbox about the same
// subject, and last is what was delivered to it last, if anything was.
func Judge(own Accepted, s Statement, newer []Accepted, last *Delivered) (Verdict, bool) {
	var newest *Accepted
	for i, n := range newer {
		if n.At.After(own.At) && (newest == nil || n.At.After(newest.At)) && mayReplace(n, own, s) {
			newest = &newer[i]
		}
	}
	switch {
	case newest != nil:
		return Verdict{activity.Superseded, newest.ID}, true
	case last == nil || last.ID == own.ID:
		return Verdict{}, false
	case s.Type == "update" && s.Content != "" && last.Content == s.Content:
		return Verdict{activity.Redundant, last.ID}, true
	case s.Group == Membership && s.Target != "" && last.Type == s.Type:
		return Verdict{activity.Redundant, last.ID}, true
	}
	return Verdict{}, false
}

// mayReplace reports whether a newer activity may stand in for own. An update
// may not for a create, which the receiver then never saw and without which many
// receivers drop the update, unless either caller says that they do not.
func mayReplace(newer, own Accepted, s Statement) bool {
	return newer.Type != "update" || !s.creates() || newer.CoalesceCreate || own.CoalesceCreate
}
