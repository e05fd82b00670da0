package enqueue

import (
	"fedpost/internal/activity"
	"fedpost/internal/protocol"
)

// collapse turns recipients into targets, in the recipients' order: duplicates
// are dropped, and recipients with the same shared inbox become one target,
// unless every inbox is wanted. It also returns the number of distinct
// recipients. URLs are expected in their canonical spelling.
//
// With a shared inbox a server that has a thousand followers of the sender gets
// the activity once. The server decides by the activity's addressing which of its
// users see the activity.
// https://www.w3.org/TR/activitypub/#shared-inbox-delivery
//
// One request cannot have two sets of headers: differ lists the recipients whose headers
// are not those of an earlier one at the same target.
func collapse(rs []Recipient, everyInbox bool) (targets []activity.Target, distinct int, differ []int) {
	place := make(map[string]int, len(rs)) // in targets, by URL
	seen := make(map[string]int, len(rs))  // recipients, by their own inbox
	for n, r := range rs {
		if first, ok := seen[r.Inbox]; ok {
			if rs[first].encoded != r.encoded {
				differ = append(differ, n)
			}
			continue
		}
		seen[r.Inbox] = n
		distinct++

		inbox, written, shared := r.Inbox, r.writtenInbox, false
		if r.SharedInbox != "" && !everyInbox {
			// An inbox that is named as its own shared inbox belongs to one
			// actor: its answer says nothing about the whole server.
			inbox, written, shared = r.SharedInbox, r.writtenShared, r.SharedInbox != r.Inbox
		}
		if i, ok := place[inbox]; ok {
			if targets[i].Headers != r.encoded {
				differ = append(differ, n)
			}
			targets[i].Stands++
			targets[i].Shared = targets[i].Shared || shared
			continue
		}
		place[inbox] = len(targets)
		if written == inbox || written != protocol.Name(written) { // what a terminal must not get is not given back
			written = ""
		}
		targets = append(targets, activity.Target{Inbox: inbox, Written: written, Stands: 1, Shared: shared, Headers: r.encoded})
	}
	return targets, distinct, differ
}
