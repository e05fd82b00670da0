// Package coalesce decides which deliveries need not be sent: those that a newer
// activity supersedes, and those that would tell an inbox what it knows already.
//
// The three rules are applied in this order when a delivery is about to be sent.
// They compare what activities say (Statement), not their text: a body is parsed
// once, and then only keys and digests are compared.
//
//   - Superseded: a strictly newer activity was accepted for the same inbox, of
//     the same group and about the same object (and target). So the newest of a
//     burst wins. One that may end undelivered before the older does, because it was
//     cancelled or expires sooner, supersedes nothing where it is not delivered yet.
//   - No news: an update says what the activity delivered last to that inbox
//     about that object said.
//   - Already known: an add or remove is of the type that was delivered last to
//     that inbox for that object and target.
//
// An activity that says what was delivered last, while one that says something else may be
// under way, is judged again when that one has arrived or never will.
//
// Delivered means answered with 2xx: a failed attempt makes no delivery
// redundant.
package coalesce

import (
	"time"

	"fedpost/internal/activity"
)

// Group is a set of activity types that can supersede each other.
type Group string

// The groups. Other types are never redundant.
const (
	Lifecycle  Group = "lifecycle"  // create, update, delete, creation, deletion
	Membership Group = "membership" // add, remove
)

// groups maps lower-cased activity types to their group.
var groups = map[string]Group{
	"create": Lifecycle, "update": Lifecycle, "delete": Lifecycle, "creation": Lifecycle, "deletion": Lifecycle,
	"add": Membership, "remove": Membership,
}

// Subject is what activities must have in common to supersede each other.
type Subject struct {
	Group  Group
	Object string // id
	// Target is the id of the collection that something is added to or removed
	// from. It is empty in Lifecycle, and if the activity has neither target nor
	// origin.
	Target string
}

// Statement is what an activity says about a subject.
type Statement struct {
	Subject
	Type string // lower-cased
	// Content is a digest of the object, equal for objects that differ only in
	// the order of keys; empty if the object is only an id.
	Content string
}

func (s Statement) creates() bool { return s.Type == "create" || s.Type == "creation" }

// Accepted is an activity that was accepted for delivery.
type Accepted struct {
	ID   activity.ID `json:"id"`
	At   time.Time   `json:"at"`
	Type string      `json:"type"` // lower-cased
	// Content is that of its Statement; empty, too, if an earlier version noted it.
	Content string `json:"content,omitempty"`
	// CoalesceCreate: the caller of the activity lets updates supersede creates.
	CoalesceCreate bool `json:"create,omitempty"`
	// ExpiresAt is when it is not delivered any more; zero: never.
	ExpiresAt time.Time `json:"expires,omitzero"`
	// Cancelled is what Store.Cancelled says of it.
	Cancelled bool `json:"-"`
}

// lasts reports whether a is delivered for as long as older is.
func (a Accepted) lasts(older Accepted) bool {
	return !a.Cancelled && (a.ExpiresAt.IsZero() || !older.ExpiresAt.IsZero() && !a.ExpiresAt.Before(older.ExpiresAt))
}

// Delivered is the activity about a subject that was delivered last to an inbox.
type Delivered struct {
	ID      activity.ID `json:"id"`
	Type    string      `json:"type"` // lower-cased
	Content string      `json:"content,omitempty"`
}

// Verdict says why a delivery need not be sent, or not yet.
type Verdict struct {
	// State is Superseded or Redundant; or Retrying, if By may be under way to the inbox and
	// it is judged again at Until.
	State activity.State
	By    activity.ID // the activity that made it so
	Until time.Time   // zero unless Retrying
}

// Judge reports whether own, which says s, need not be sent to an inbox, and why.
// newer holds the activities about the same subject accepted for that inbox; last
// is the activity delivered last to it, nil if there is none.
func Judge(own Accepted, s Statement, newer []Accepted, last *Delivered) (Verdict, bool) {
	var newest *Accepted
	for i, n := range newer {
		if !n.lasts(own) && (last == nil || last.ID != n.ID) {
			continue
		}
		if n.At.After(own.At) && (newest == nil || n.At.After(newest.At)) && mayReplace(n, own, s) {
			newest = &newer[i]
		}
	}
	switch {
	case newest != nil:
		return Verdict{State: activity.Superseded, By: newest.ID}, true
	case last == nil || last.ID == own.ID:
		return Verdict{}, false
	case s.Type == "update" && s.Content != "" && last.Content == s.Content:
		return Verdict{State: activity.Redundant, By: last.ID}, true
	case s.Group == Membership && s.Target != "" && last.Type == s.Type:
		return Verdict{State: activity.Redundant, By: last.ID}, true
	}
	return Verdict{}, false
}

// mayReplace reports whether a newer activity may supersede own. An update must
// not supersede a create unless either caller allows it: the receiver would never
// see the create, and many receivers drop an update without the create.
func mayReplace(newer, own Accepted, s Statement) bool {
	return newer.Type != "update" || !s.creates() || newer.CoalesceCreate || own.CoalesceCreate
}
