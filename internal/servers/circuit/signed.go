package circuit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"fedpost/internal/activity/outcome"
)

// A 401 is about the signing key: the server could not fetch it, or knows another. So
// deliveries with one key have a circuit and a lot of their own: at an inbox that keeps
// answering 401, and at a host of which several inboxes refused the key. Otherwise one actor
// whose key cannot be fetched, such as a deleted one, would close shared inboxes for all
// actors.

// These keys end with a fragment, which no inbox has, and a digest of the signing key.
const (
	inboxSigned = "#key-"
	hostSigned  = "#hostkey-"
)

// KeyDigest stands for a signing key in the keys of states.
func KeyDigest(keyID string) string {
	sum := sha256.Sum256([]byte(keyID))
	return hex.EncodeToString(sum[:6])
}

// SignedInboxKey and SignedHostKey return the keys of the states of an inbox, and of a host,
// with a signing key.
func SignedInboxKey(inbox, digest string) string { return InboxKey(inbox + inboxSigned + digest) }

func SignedHostKey(host, digest string) string {
	return InboxKey("https://" + host + "/" + hostSigned + digest)
}

// OfSigningKey reports whether a key is of a state for one signing key.
func OfSigningKey(key string) bool {
	return strings.Contains(key, inboxSigned) || strings.Contains(key, hostSigned)
}

func (s State) ofSignedHost() bool { return strings.Contains(s.Key, hostSigned) }

// Unverified returns the observation, for the state of an inbox and a signing key, of an
// attempt that was answered 401.
func Unverified(keyID string, out outcome.Outcome) Observation {
	return Observation{Failures: 1, Trailing: 1, Inbox: several, Reason: out.Reason, Why: out.Err, KeyID: keyID}
}

// UnverifiedBy is Unverified for the state of a host and a signing key.
func UnverifiedBy(inbox, keyID string, out outcome.Outcome) Observation {
	return Observation{Slow: inboxDigest(inbox), Reason: out.Reason, Why: out.Err, KeyID: keyID}
}

// unverified reports whether a host refuses a signing key: several inboxes did and none has
// taken it since, or one did right after an outage.
func (s State) unverified(o Observation) bool {
	return s.ofSignedHost() && o.Slow != "" && (s.Unproven > 0 || len(strings.Fields(s.Slow)) >= slowInboxes)
}
