package deliver

import (
	"crypto/sha256"
	"encoding/hex"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
)

// A 401 is about the signing key: the server could not fetch the key, or knows another
// one. So deliveries with one key to an inbox that keeps answering 401 have a circuit and a
// lot of their own. In the inbox's own lot they would hold up the deliveries of all other
// actors: a single actor whose key cannot be fetched, such as a deleted actor, would close
// every shared inbox for all.

// signed returns t with the digest of this activity's key as the fragment of its inbox. No
// inbox has a fragment, so the result has a state of its own.
func (u *unit) signed(t activity.Target) activity.Target {
	if u.keyMark == "" {
		sum := sha256.Sum256([]byte(u.a.KeyID))
		u.keyMark = "#key-" + hex.EncodeToString(sum[:6])
	}
	t.Inbox += u.keyMark
	return t
}

// place is where a delivery to a target goes: its inbox has a state, and that inbox with this
// signing key has another.
func (u *unit) place(host string, t activity.Target) cache.Place {
	return cache.PlaceOf(host, t.Inbox, u.signed(t).Inbox)
}

// learnOfInbox notes what an attempt says about its inbox and signing key. Ordered
// deliveries, and all that are under way at once, would otherwise each make all their tries
// at an inbox that verifies none.
func (u *unit) learnOfInbox(j *job) {
	if !u.route.Policy.Circuit || j.out.Try != outcome.Made {
		return
	}
	switch j.out.Class {
	case outcome.Unverified:
		now, signed := u.Now(), circuit.InboxKey(u.signed(j.target).Inbox)
		u.Hosts.ObserveUnder(signed, circuit.Unverified(j.out))
		if u.Hosts.State(signed).Accepts(now) {
			return
		}
		u.Hosts.Learn(circuit.HostKey(j.host), cache.Lesson{Kind: "inboxes", Apply: func(s circuit.State) circuit.State {
			return s.InboxFault(u.Rules, now)
		}})
	case outcome.Delivered:
		for _, key := range j.place.Inboxes {
			if s := u.Hosts.State(key); s.Streak > 0 || s.Unproven > 0 {
				u.Hosts.ObserveUnder(key, circuit.Observation{Successes: 1})
			}
		}
	}
}

// unproven returns the bounds of attempts at an inbox, or at an inbox with a signing key,
// that has accepted nothing since its last outage: one at a time. If that attempt fails, the
// others are spared; ordered deliveries come all at once after a check.
func (u *unit) unproven(j *job) []bound {
	var bs []bound
	for _, key := range j.place.Inboxes {
		if u.Hosts.State(key).Unproven > 0 {
			bs = append(bs, bound{pool: pool{host: key}, size: 1})
		}
	}
	return bs
}

// decision returns what a delivery to a place has to do, and the state that decides: the
// host's, the inbox's, or that of the inbox and this signing key.
func (u *unit) decision(p cache.Place) (circuit.State, circuit.Decision) {
	return u.Hosts.Decision(p, u.Now())
}
