package deliver

import (
	"crypto/sha256"
	"encoding/hex"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// A 401 is about the signing key: the server could not fetch it, or knows another
// one. The deliveries of one key to an inbox that keeps answering 401 therefore
// have a circuit and a lot of their own. In those of the inbox they would hold up
// the deliveries of all other actors: one actor whose key cannot be fetched, such
// as a deleted one, would close every shared inbox for all.

// signed is t as the deliveries signed with this activity's key see it: the
// digest of the key as a fragment, which no inbox has, makes a state of its own.
func (u *unit) signed(t activity.Target) activity.Target {
	sum := sha256.Sum256([]byte(u.a.KeyID))
	t.Inbox += "#key-" + hex.EncodeToString(sum[:6])
	return t
}

func (u *unit) signedTargets() []activity.Target {
	ts := u.targets()
	for i, t := range ts {
		ts[i] = u.signed(t)
	}
	return ts
}

// decision returns how a target is met, and the state that says so: its host's,
// its inbox's, or that of its inbox for this signing key.
func (u *unit) decision(t activity.Target) (circuit.State, circuit.Decision) {
	now := u.Now()
	if s, d := u.Hosts.Decision(t, now); d != circuit.Send {
		return s, d
	}
	return u.Hosts.Decision(u.signed(t), now)
}
