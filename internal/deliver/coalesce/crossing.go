package coalesce

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
)

// underWay is how long after an activity was accepted an earlier attempt may still be under
// way: an invocation takes a minute at most, and the rest is for clocks that differ.
const underWay = 75 * time.Second

// crossing postpones verdicts that may be about to become wrong: the last delivered activity
// says the same as a, but one that says something else was accepted in between and may be under
// way. Attempts that begin after a was accepted find it, so after underWay the last delivered
// one is what the inbox has.
func (f Filter) crossing(ctx context.Context, a activity.Activity, s Statement, ts []activity.Target, needless map[int]Verdict) error {
	until := a.CreatedAt.Add(underWay)
	if !f.Now().Before(until) {
		return nil
	}
	var of []activity.Target
	since := a.CreatedAt
	for i, v := range needless {
		if v.State != activity.Redundant {
			continue
		}
		of = append(of, ts[i])
		if at := v.By.Time(); at.Before(since) {
			since = at
		}
	}
	if len(of) == 0 {
		return nil
	}
	between, err := f.Store.NewerAccepted(ctx, s.Subject, since.Add(-time.Millisecond), inboxes(of))
	if err != nil {
		return fmt.Errorf("look for what may be under way before activity %s: %w", a.ID, err)
	}
	for i, v := range needless {
		if v.State != activity.Redundant {
			continue
		}
		for _, n := range between[ts[i].Inbox] {
			if n.ID != a.ID && n.ID != v.By && !n.At.Before(v.By.Time()) && !n.At.After(a.CreatedAt) && n.differs(s) {
				needless[i] = Verdict{State: activity.Retrying, By: n.ID, Until: until}
				break
			}
		}
	}
	return nil
}

// differs reports whether a says something else of the subject than s.
func (a Accepted) differs(s Statement) bool {
	return a.Type != s.Type || s.Group == Lifecycle && a.Content != s.Content
}
