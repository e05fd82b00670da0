package simulation

import "slices"

// leavesAfter is after how many POSTs in vain of one post an inbox may leave the FIFO group of its
// host: those of the quick tries.
const leavesAfter = 5

// inOrder compares a post that an inbox takes for the first time with those of its ordering key
// that the host has taken already: its caller waited for the answer to those before it. Others do
// not count if the inbox may have left the FIFO group of its host.
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

// revived: failed or dead deliveries of this story are sent again, out of order.
func (b *book) revived() bool {
	return slices.ContainsFunc(b.scenario.Acts, func(a Act) bool { return a.Do == RetryDead || a.Do == Retry })
}
