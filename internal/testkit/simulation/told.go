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

// checkTold holds the feed of events against what became of recipients: a bad end has one
// event, whatever went wrong meanwhile, and a reader of the feed meets no event twice.
func (s *sim) checkTold() {
	ctx := context.Background()
	told, seen := map[string]map[events.Kind]bool{}, map[string]bool{}
	for cursor, more := "", true; more; {
		p, err := s.raw.Events(ctx, cursor, 500)
		if err != nil {
			s.fail("told", "the feed cannot be read: %v", err)
			return
		}
		for _, e := range p.Events {
			if seen[e.ID] {
				s.fail("told", "event %s is in the feed twice: %s of %s%s", e.ID, e.Kind, e.Inbox, e.Host)
			}
			seen[e.ID] = true
			at := fmt.Sprintf("%s %s", e.ActivityID, e.Inbox)
			if told[at] == nil {
				told[at] = map[events.Kind]bool{}
			}
			told[at][e.Kind] = true
		}
		cursor, more = p.Next, p.More
	}
	for _, n := range slices.Sorted(maps.Keys(s.book.posts)) {
		p := s.book.posts[n]
		for _, id := range p.ids {
			v, err := s.book.view(id)
			if err != nil {
				continue // forgotten by right, or another check says so
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
				if !told[fmt.Sprintf("%s %s", id, r.Inbox)][kind] {
					s.fail("told", "post %d to %s is %s since %s (%d %.60s), and nobody was told", p.N, r.Inbox, r.State, clock(r.UpdatedAt.Sub(s.began)), r.LastStatus, r.LastError)
				}
			}
		}
	}
}

// killed reports whether the feed says of a recipient that processes have died of its message.
// A message whose processes die again and again is taken for the cause.
func (s *sim) killed(id activity.ID, inbox string) bool {
	if !s.deadly() {
		return false
	}
	for cursor, more := "", true; more; {
		p, err := s.raw.Events(context.Background(), cursor, 500)
		if err != nil {
			s.fail("told", "the feed cannot be read: %v", err)
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
