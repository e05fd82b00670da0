package simulation

import "slices"

// leavesAfter are so many POSTs in vain of one post, at least, after which an inbox may leave the
// line of its host: those of the quick tries.
const leavesAfter = 5

// inOrder holds a post that an inbox takes for the first time against those of its line that
// the host has taken already: whoever submitted it waited for the answer to those before it.
// Others count less if the inbox may have left the line of its host.
func (b *book) inOrder(of *posted, host, url string) {
	if of.Ordering == "" || of.Delay > 0 || of.answeredAt.IsZero() || b.revived() {
		return
	}
	for _, later := range b.posts {
		if later.Ordering != of.Ordering || later == of || later.Delay > 0 || !later.began.After(of.answeredAt) {
			continue
		}
		for _, r := range later.Recipients {
			if d := later.inboxes[r.url()]; r.Server == host && len(d.accepted) > 0 && (r.url() == url || !b.left[url]) {
				b.fail("order", "%s took post %d of ordering key %q after post %d, which was submitted later", host, of.N, of.Ordering, later.N)
			}
		}
	}
}

// revived: what has failed or died in this story is sent again, out of its turn.
func (b *book) revived() bool {
	return slices.ContainsFunc(b.scenario.Acts, func(a Act) bool { return a.Do == RetryDead || a.Do == Retry })
}
