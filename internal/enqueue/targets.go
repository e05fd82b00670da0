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
func collapse(rs []Recipient, everyInbox bool) (targets []activity.Target, distinct int) {
	place := make(map[string]int, len(rs)) // in targets, by URL
	seen := make(map[string]bool, len(rs)) // recipients, by their own inbox
	for _, r := range rs {
		if seen[r.Inbox] {
			continue
		}
		seen[r.Inbox] = true
		distinct++

		inbox, shared := r.Inbox, false
		if r.SharedInbox != "" && !everyInbox {
			// An inbox that is named as its own shared inbox belongs to one
			// actor: its answer says nothing about the whole server.
			inbox, shared = r.SharedInbox, r.SharedInbox != r.Inbox
		}
		if i, ok := place[inbox]; ok {
			targets[i].Stands++
			targets[i].Shared = targets[i].Shared || shared
			continue
		}
		place[inbox] = len(targets)
		targets = append(targets, activity.Target{Inbox: inbox, Stands: 1, Shared: shared})
	}
	return targets, distinct
}
