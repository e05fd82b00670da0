package simulation

import "time"

// settling is how long two versions of a subject may overlap: submitted a few times, under way,
// recorded.
const settling = 10 * time.Minute

// newest reports whether a post is surely the last version of its subject.
func (s *sim) newest(p Post) bool {
	at := time.Duration(0)
	for _, a := range s.scenario.Acts {
		if a.Do == SetBack {
			return false // the clocks decide which is newer
		}
		if a.Post != nil && a.Post.N == p.N {
			at = a.At
		}
	}
	for _, a := range s.scenario.Acts {
		if a.Post != nil && a.Post.N != p.N && a.Post.Subject == p.Subject && a.At+settling > at {
			return false
		}
	}
	return true
}

// fresh checks that no later version of a subject was accepted for the same inbox some time before
// a server takes a version.
func (b *book) fresh(of *posted, r request) {
	if of.Subject == "" || !b.calm() || b.disorder() > 0 || b.revived() {
		return
	}
	for _, later := range b.posts {
		if later.Subject != of.Subject || later == of || later.answeredAt.IsZero() || of.answeredAt.IsZero() {
			continue
		}
		if later.inboxes["https://"+r.host+r.path] != nil && later.began.Sub(of.answeredAt) > settling && time.Since(later.answeredAt) > settling {
			b.fail("stale", "%s%s took post %d, which post %d of %s ago had made needless", r.host, r.path, of.N, later.N, time.Since(later.answeredAt))
		}
	}
}
