package deliver

import (
	"crypto/sha256"
	"encoding/hex"

	"fedpost/internal/activity"
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

// decision returns what a delivery to a target has to do, and the state that decides: the
// host's, the inbox's, or that of the inbox and this signing key.
func (u *unit) decision(t activity.Target) (circuit.State, circuit.Decision) {
	now := u.Now()
	if s, d := u.Hosts.Decision(t, now); d != circuit.Send {
		return s, d
	}
	return u.Hosts.Decision(u.signed(t), now)
}
