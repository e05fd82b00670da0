package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger/events"
)

// checkFeed compares the feed of events with the states of recipients: a bad end has one event,
// whatever failed, and no event is in the feed twice.
func (s *sim) checkFeed() {
	ctx := context.Background()
	recorded, seen := map[string]map[events.Kind]bool{}, map[string]bool{}
	for cursor, more := "", true; more; {
		p, err := s.raw.Events(ctx, cursor, 500)
		if err != nil {
			s.fail("events", "the feed cannot be read: %v", err)
			return
		}
		for _, e := range p.Events {
			if seen[e.ID] {
				s.fail("events", "event %s is in the feed twice: %s of %s%s", e.ID, e.Kind, e.Inbox, e.Host)
			}
			seen[e.ID] = true
			at := fmt.Sprintf("%s %s", e.ActivityID, e.Inbox)
			if recorded[at] == nil {
				recorded[at] = map[events.Kind]bool{}
			}
			recorded[at][e.Kind] = true
		}
		cursor, more = p.Next, p.More
	}
	for _, n := range slices.Sorted(maps.Keys(s.book.posts)) {
		p := s.book.posts[n]
		for _, id := range p.ids {
			v, err := s.book.view(id)
			if err != nil {
				continue // it may be forgotten; otherwise another check fails
			}
			for _, r := range v.Recipients {
				if time.Since(r.UpdatedAt) > events.Keep-24*time.Hour || r.State != activity.Dead && r.State != activity.Failed {
					continue
				}
				kind := events.RecipientDead
				switch {
				case r.State == activity.Failed && (r.LastStatus == 404 || r.LastStatus == 410):
					kind = events.RecipientGone
				case r.State == activity.Failed:
					kind = events.RecipientFailed
				}
				if !recorded[fmt.Sprintf("%s %s", id, r.Inbox)][kind] {
					s.fail("events", "post %d to %s is %s since %s (%d %.60s), and has no event", p.N, r.Inbox, r.State, clock(r.UpdatedAt.Sub(s.began)), r.LastStatus, r.LastError)
				}
			}
		}
	}
}

// killed reports whether the feed says that processes died of a recipient's message. A message
// whose processes die again and again is given up as the cause.
func (s *sim) killed(id activity.ID, inbox string) bool {
	if !s.deadly() {
		return false
	}
	for cursor, more := "", true; more; {
		p, err := s.raw.Events(context.Background(), cursor, 500)
		if err != nil {
			s.fail("events", "the feed cannot be read: %v", err)
			return false
		}
		for _, e := range p.Events {
			if e.ActivityID == id && e.Inbox == inbox && e.Kind == events.RecipientDead && strings.HasPrefix(e.Reason, "received ") {
				return true
			}
		}
		cursor, more = p.Next, p.More
	}
	return false
}
