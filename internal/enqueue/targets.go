package enqueue

import "fedpost/internal/activity"

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

		inbox, shared := r.Inbox, false
		if r.SharedInbox != "" && !everyInbox {
			// An inbox that is named as its own shared inbox belongs to one
			// actor: its answer says nothing about the whole server.
			inbox, shared = r.SharedInbox, r.SharedInbox != r.Inbox
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
		targets = append(targets, activity.Target{Inbox: inbox, Stands: 1, Shared: shared, Headers: r.encoded})
	}
	return targets, distinct, differ
}
