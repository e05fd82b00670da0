// Package coalesce decides which deliveries need not be sent: those that a newer activity
// supersedes, and those that say what the inbox knows already.
//
// The rules compare what activities say (Statement), in this order:
//
//   - Superseded: a newer activity of the same group and about the same object and target was
//     accepted for the inbox. One that may end undelivered before the older one, because it was
//     cancelled or expires sooner, supersedes nothing until it is delivered.
//   - Already said: an update says what the last delivered activity about the object said.
//   - Already known: an add or remove has the type that was delivered last for the object and
//     target.
//
// While an activity that says something else may be under way, an activity that repeats the
// last delivered one is judged again later. Delivered means answered with 2xx.
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

var groups = map[string]Group{
	"create": Lifecycle, "update": Lifecycle, "delete": Lifecycle, "creation": Lifecycle, "deletion": Lifecycle,
	"add": Membership, "remove": Membership,
}

// Subject is what activities must have in common to supersede each other.
type Subject struct {
	Group  Group
	Object string // id
	// Target is the id of the collection of an add or remove; otherwise empty.
	Target string
}

// Statement is what an activity says about a subject.
type Statement struct {
	Subject
	Type string // lower-cased
	// Content is a digest of the object, whatever the order of its keys; empty if it is only an
	// id.
	Content string
}

func (s Statement) creates() bool { return s.Type == "create" || s.Type == "creation" }

// Accepted is an activity that was accepted for delivery.
type Accepted struct {
	ID   activity.ID `json:"id"`
	At   time.Time   `json:"at"`
	Type string      `json:"type"` // lower-cased
	// Content is that of its Statement; empty if an earlier version recorded it.
	Content string `json:"content,omitempty"`
	// CoalesceCreate says that updates may supersede creates.
	CoalesceCreate bool `json:"create,omitempty"`
	// ExpiresAt is when delivery ends; zero: never.
	ExpiresAt time.Time `json:"expires,omitzero"`
	// Cancelled is what Store.Cancelled says of it.
	Cancelled bool `json:"-"`
}

// lasts reports whether a is delivered for as long as older is.
func (a Accepted) lasts(older Accepted) bool {
	return !a.Cancelled && (a.ExpiresAt.IsZero() || !older.ExpiresAt.IsZero() && !a.ExpiresAt.Before(older.ExpiresAt))
}

// Delivered is the last activity about a subject that an inbox accepted.
type Delivered struct {
	ID      activity.ID `json:"id"`
	Type    string      `json:"type"` // lower-cased
	Content string      `json:"content,omitempty"`
}

// Verdict says why a delivery need not be sent, or not yet.
type Verdict struct {
	// State is Superseded or Redundant; or Retrying if By may be under way and the delivery is
	// judged again at Until.
	State activity.State
	By    activity.ID
	Until time.Time // zero unless Retrying
}

// Judge reports whether own, which says s, need not be sent to an inbox, and why. newer has the
// activities about the same subject that were accepted for the inbox; last is the last
// delivered one, or nil.
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

// mayReplace reports whether a newer activity may supersede own. An update supersedes a create
// only if a caller allows it: many receivers drop an update of something that they do not know.
func mayReplace(newer, own Accepted, s Statement) bool {
	return newer.Type != "update" || !s.creates() || newer.CoalesceCreate || own.CoalesceCreate
}
