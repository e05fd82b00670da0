package enqueue

import "fedpost/internal/activity"

// collapse turns recipients into targets in their order: duplicates go, and
// recipients that have a shared inbox in common become one target, unless every
// inbox is wanted. It also returns the number of distinct recipients. The URLs
// are in their canonical spelling.
//
// A shared inbox exists so that a server with a thousand followers of the
// sender is told once; who on that server gets to see the activity is its own
// business, by the activity's addressing.
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
			// An inbox that is named as its own shared inbox is one actor's: what it
			// answers says nothing of the whole server.
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
