package enqueue

import (
	"fedpost/internal/activity"
	"fedpost/internal/protocol"
)

// collapse turns recipients, whose URLs are canonical, into targets, in the recipients'
// order. Duplicates are dropped, and recipients with the same shared inbox become one target
// unless everyInbox is set. distinct is the number of distinct recipients; differ lists the
// recipients whose headers differ from those of an earlier one with the same target.
// https://www.w3.org/TR/activitypub/#shared-inbox-delivery
func collapse(rs []Recipient, everyInbox bool) (targets []activity.Target, distinct int, differ []int) {
	index := make(map[string]int, len(rs)) // in targets, by URL
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
		if i, ok := index[inbox]; ok {
			if targets[i].Headers != r.encoded {
				differ = append(differ, n)
			}
			targets[i].Stands++
			targets[i].Shared = targets[i].Shared || shared
			continue
		}
		index[inbox] = len(targets)
		if written == inbox || written != protocol.Name(written) { // unsafe for terminals
			written = ""
		}
		targets = append(targets, activity.Target{Inbox: inbox, Written: written, Stands: 1, Shared: shared, Headers: r.encoded})
	}
	return targets, distinct, differ
}
