package ledger

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// Circuits is what Explain needs of the servers' storage.
type Circuits interface {
	Servers(ctx context.Context, keys ...string) (map[string]circuit.State, error)
}

// LotName shortens the key of a parked target's lot for its record: the host's lot to nothing, the
// inbox's to ofInbox. The lot of a signing key has the key's digest after ofInbox or ofHost.
func LotName(inbox, key string) string {
	if rest, ok := strings.CutPrefix(key, circuit.InboxKey(inbox)); ok {
		return ofInbox + rest
	}
	if digest, ok := strings.CutPrefix(key, circuit.SignedHostKey(activity.HostOf(inbox), "")); ok {
		return ofHost + digest
	}
	return ""
}

const ofInbox, ofHost = "inbox", "host"

// lotKey is the key of a lot that LotName has named.
func lotKey(inbox, name string) string {
	if rest, ok := strings.CutPrefix(name, ofInbox); ok {
		return circuit.InboxKey(inbox) + rest
	}
	if digest, ok := strings.CutPrefix(name, ofHost); ok {
		return circuit.SignedHostKey(activity.HostOf(inbox), digest)
	}
	return circuit.HostKey(activity.HostOf(inbox))
}

// Explain sets Reason of each recipient of rs that waits. For a parked one it also sets WaitsFor
// and NextAttemptAt. WaitsFor is the host that the recipient waits for, or the inbox whose own
// circuit is open ("inbox:" and its URL, then "#key-…" if it is open for one signing key only).
// NextAttemptAt is when that host or inbox is checked next. It makes one read request for 100 hosts
// and inboxes.
func Explain(ctx context.Context, c Circuits, rs []RecipientView, now time.Time) error {
	states, err := circuits(ctx, c, rs)
	if err != nil {
		return err
	}
	for i := range rs {
		r := &rs[i]
		switch r.State {
		case activity.Queued:
			r.Reason = "waits on its queue"
			if r.NextAttemptAt.After(now) {
				r.Reason = "is not due yet"
			}
		case activity.Retrying:
			r.Reason = cmp.Or(r.Note, r.LastError, "the last attempt failed")
			if host := states[circuit.HostKey(activity.HostOf(r.Inbox))]; host.Phase == circuit.Blocked {
				r.Reason = "blocked, so this ends at its next try: " + host.Why
			}
		case activity.Parked:
			name := activity.HostOf(r.Inbox)
			host, lot := states[circuit.HostKey(name)], states[r.lot()]
			r.WaitsFor, r.Reason = name, host.Explain(now)
			if host.Accepts(now) {
				if _, whole := circuit.HostOf(r.lot()); !whole {
					r.WaitsFor, r.Reason = r.lot(), lot.Explain(now)
				} else if r.NextAttemptAt.After(now) {
					// The head of an ordered group: its record says why it is held.
					r.Reason = cmp.Or(r.Note, r.LastError, r.Reason)
				}
			}
			r.NextAttemptAt = next(host, lot, r.NextAttemptAt, now)
		}
		r.Reason = outcome.Clean(r.Reason, longestReason)
	}
	return nil
}

// next is when a parked recipient is checked next. own is the due time of the recipient itself,
// which the head of an ordered group has. A zero result would mean never, and must not happen.
func next(host, lot circuit.State, own, now time.Time) time.Time {
	at := lot.LooksAt(now)
	switch look := host.LooksAt(now); {
	case !host.Accepts(now) && host.CheckAt.IsZero() && !at.IsZero():
		return at // the host is paused: deliveries parked for its inboxes may become overdue
	case !host.Accepts(now) && !look.IsZero():
		return look // an inbox is not checked before its host
	case host.Accepts(now) && own.After(now) && (at.IsZero() || own.Before(at)):
		return own
	case at.IsZero() && !lot.Parked:
		return now // the lot is empty: the recipient's message is on its queue
	}
	return at
}

// lot is the key of the lot in which a recipient is parked.
func (r RecipientView) lot() string {
	return cmp.Or(r.Lot, circuit.HostKey(activity.HostOf(r.Inbox)))
}

// circuits reads the states of the hosts of retrying and parked recipients, and of the lots of
// parked ones.
func circuits(ctx context.Context, c Circuits, rs []RecipientView) (map[string]circuit.State, error) {
	seen := map[string]bool{}
	var keys []string
	for _, r := range rs {
		if r.State != activity.Parked && r.State != activity.Retrying {
			continue
		}
		for _, k := range []string{circuit.HostKey(activity.HostOf(r.Inbox)), r.lot()} {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	states, err := c.Servers(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("look up what parked deliveries wait for: %w", err)
	}
	return states, nil
}

// ParkedIDs returns the ids under which recipients of an activity without an ordering key may be
// parked. A recipient that was parked before its first attempt has no record of its lot, so both
// possible lots are returned.
func ParkedIDs(r Record, chunks []Chunk) (all []parking.ID) {
	for _, c := range chunks {
		for p, t := range c.Targets {
			u := message.Unit{Activity: r.ID, Chunk: c.Number, Position: p, Generation: parking.FirstGeneration}
			rec, recorded := c.Recipients[p]
			switch {
			case !recorded:
				for _, key := range []string{circuit.HostKey(t.Host()), circuit.InboxKey(t.Inbox)} {
					all = append(all, parking.ID{Key: key, Unit: u})
				}
			case rec.State == activity.Parked:
				u.Generation = rec.Generation
				all = append(all, parking.ID{Key: lotKey(t.Inbox, rec.Lot), Unit: u})
			}
		}
	}
	return all
}
