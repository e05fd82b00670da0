package coalesce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/activity"
)

// Store keeps, by subject and inbox, which activities were accepted and delivered.
type Store interface {
	// PutAccepted records that a was accepted for inboxes, in one write per about a hundred
	// inboxes. It may be repeated.
	PutAccepted(ctx context.Context, s Subject, a Accepted, inboxes []string, forget time.Time) error
	// NewerAccepted returns, by inbox, the activities about s that were accepted
	// after a time.
	NewerAccepted(ctx context.Context, s Subject, after time.Time, inboxes []string) (map[string][]Accepted, error)
	// Cancelled returns which of the activities were cancelled or forgotten, or lost with their
	// message.
	Cancelled(ctx context.Context, ids []activity.ID) (map[activity.ID]bool, error)
	// PutDelivered records d as the last delivered activity about s, in one write per inbox.
	PutDelivered(ctx context.Context, s Subject, d Delivered, inboxes []string, forget time.Time) error
	// LastDelivered returns, by inbox, the last delivered activity about s, where it is known.
	LastDelivered(ctx context.Context, s Subject, inboxes []string) (map[string]Delivered, error)
}

// Filter applies the rules to activities that were submitted with coalesce "latest".
type Filter struct {
	Store Store
	Now   func() time.Time
	// Pending is how long an accepted activity may wait for its delivery.
	Pending time.Duration
	// Remember is how long the last delivered activity is kept.
	Remember time.Duration
}

func accepted(a activity.Activity, s Statement) Accepted {
	return Accepted{ID: a.ID, At: a.CreatedAt, Type: s.Type, Content: s.Content, CoalesceCreate: a.CoalesceCreate, ExpiresAt: a.ExpiresAt}
}

func statement(a activity.Activity) (Statement, bool) {
	if a.Coalesce != activity.CoalesceLatest {
		return Statement{}, false
	}
	return Read(a.Body)
}

func inboxes(ts []activity.Target) []string {
	urls := make([]string, len(ts))
	for i, t := range ts {
		urls[i] = t.Inbox
	}
	return urls
}

// Accepted records that a was accepted for ts.
func (f Filter) Accepted(ctx context.Context, a activity.Activity, ts []activity.Target) error {
	s, ok := statement(a)
	if !ok || len(ts) == 0 {
		return nil
	}
	forget := a.CreatedAt
	if now := f.Now(); now.After(forget) {
		forget = now
	}
	if err := f.Store.PutAccepted(ctx, s.Subject, accepted(a, s), inboxes(ts), forget.Add(f.Pending)); err != nil {
		return fmt.Errorf("record activity %s for what it supersedes: %w", a.ID, err)
	}
	return nil
}

// Needless returns, by index into ts, why a need not be sent, or not yet.
func (f Filter) Needless(ctx context.Context, a activity.Activity, ts []activity.Target) (map[int]Verdict, error) {
	s, ok := statement(a)
	if !ok || len(ts) == 0 {
		return nil, nil
	}
	newer, err := f.Store.NewerAccepted(ctx, s.Subject, a.CreatedAt, inboxes(ts))
	if err != nil {
		return nil, fmt.Errorf("look for what supersedes activity %s: %w", a.ID, err)
	}
	var last map[string]Delivered
	if len(newer) > 0 || (s.Type == "update" && s.Content != "") || s.Group == Membership {
		if last, err = f.Store.LastDelivered(ctx, s.Subject, inboxes(ts)); err != nil {
			return nil, fmt.Errorf("look for what is known of activity %s already: %w", a.ID, err)
		}
	}
	for {
		needless := judgeAll(accepted(a, s), s, ts, newer, last)
		more, err := f.markCancelled(ctx, needless, newer)
		if err != nil {
			return nil, fmt.Errorf("look whether what supersedes activity %s is delivered: %w", a.ID, err)
		}
		if !more {
			return needless, f.crossing(ctx, a, s, ts, needless)
		}
	}
}

func judgeAll(own Accepted, s Statement, ts []activity.Target, newer map[string][]Accepted, last map[string]Delivered) map[int]Verdict {
	needless := make(map[int]Verdict)
	for i, t := range ts {
		var known *Delivered
		if d, ok := last[t.Inbox]; ok {
			known = &d
		}
		if v, ok := Judge(own, s, newer[t.Inbox], known); ok {
			needless[i] = v
		}
	}
	return needless
}

// markCancelled marks superseding activities that were cancelled. more: it has marked some.
func (f Filter) markCancelled(ctx context.Context, needless map[int]Verdict, newer map[string][]Accepted) (more bool, err error) {
	by := map[activity.ID]bool{}
	for _, v := range needless {
		if v.State == activity.Superseded {
			by[v.By] = true
		}
	}
	if len(by) == 0 {
		return false, nil
	}
	cancelled, err := f.Store.Cancelled(ctx, slices.Sorted(maps.Keys(by)))
	if err != nil {
		return false, err
	}
	for _, as := range newer {
		for i, a := range as {
			if cancelled[a.ID] && !a.Cancelled {
				as[i].Cancelled, more = true, true
			}
		}
	}
	return more, nil
}

// Delivered records that a was delivered to ts.
func (f Filter) Delivered(ctx context.Context, a activity.Activity, ts []activity.Target) error {
	s, ok := statement(a)
	if !ok || len(ts) == 0 {
		return nil
	}
	d := Delivered{a.ID, s.Type, s.Content}
	if err := f.Store.PutDelivered(ctx, s.Subject, d, inboxes(ts), f.Now().Add(f.Remember)); err != nil {
		return fmt.Errorf("record delivery of activity %s: %w", a.ID, err)
	}
	return nil
}
