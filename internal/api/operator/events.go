package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/ledger/events"
)

const (
	// longestWait is how long a reader may wait for an event, in seconds.
	longestWait = 20
	// mostWaiting is how many readers may wait at once, as each holds a connection. Others get an
	// answer at once, with retryAfter.
	mostWaiting = 64
	// retryAfter is the most seconds that such a reader should wait before the next request.
	retryAfter = 5
)

// Cursors for new readers.
const (
	// now is the end of the feed.
	now = "now"
	// recent is shortly before the end, for people.
	recent = "recent"
	// recentItems is how many items of each log are recent.
	recentItems = 12
)

func (h handlers) listEvents(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "after", "type", "limit", "wait")
	limit, wait := q.Number("limit", api.UsualPage, 1, api.MostPage), q.Number("wait", 0, 0, longestWait)
	if err := q.Check(); err != nil {
		return nil, err
	}
	kinds, err := kindsOf(q.Get("type"))
	if err != nil {
		return nil, err
	}
	query := events.Query{After: q.Get("after"), Kinds: kinds, Limit: limit}
	if query.After == now || query.After == recent {
		if query.After, err = h.endOfFeed(r.Context(), query.After == recent); err != nil {
			return nil, err
		}
	}
	full := false
	if wait > 0 {
		select {
		case h.readers <- struct{}{}:
			defer func() { <-h.readers }()
			query.Wait = time.Duration(wait) * time.Second
		default:
			full = true
		}
	}
	p, err := h.Events.Read(r.Context(), query)
	if errors.Is(err, events.ErrBadCursor) {
		return nil, problem.New(http.StatusBadRequest, "The query parameter after is not the value of next in an earlier answer. Leave it out to begin with the oldest event, or give now or recent.")
	}
	if err != nil {
		return nil, err
	}
	page := client.Events{Events: api.Each(p.Events, eventOf), Next: p.Next, More: p.More}
	if full && len(page.Events) == 0 && !page.More {
		page.RetryAfter = min(wait, retryAfter)
	}
	return api.Reply{Status: http.StatusOK, RetryAfter: page.RetryAfter, Body: page}, nil
}

// endOfFeed is the cursor at the end of the feed, or shortly before it.
func (h handlers) endOfFeed(ctx context.Context, before bool) (string, error) {
	end, err := h.Events.Store.EventsEnd(ctx)
	if err != nil || !before {
		return end, err
	}
	c, err := events.ParseCursor(end)
	return c.Back(recentItems).String(), err
}

// kindsOf reads a comma-separated list of types.
func kindsOf(list string) (kinds []events.Kind, err error) {
	if list == "" {
		return nil, nil
	}
	for s := range strings.SplitSeq(list, ",") {
		k := events.Kind(s)
		if !slices.Contains(events.Kinds, k) {
			return nil, problem.New(http.StatusBadRequest,
				fmt.Sprintf("The query parameter type has %q in it; types are: %s.", s, strings.Join(api.Texts(events.Kinds), ", ")))
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// EventJSON is an event in webhooks and on a bus: the same as in the feed.
func EventJSON(e events.Event) (string, error) {
	text, err := json.Marshal(eventOf(e))
	if err != nil {
		return "", fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return string(text), nil
}

func eventOf(e events.Event) client.Event {
	shown := client.Event{
		ID: e.ID, Type: string(e.Kind), Time: e.Time, ActivityID: string(e.ActivityID), Host: e.Host,
		Status: e.Status, Reason: e.Reason, Count: e.Count, Since: e.Since, Counts: api.Counts(e.Counts), Metadata: api.Raw(e.About.Metadata),
	}
	shown.Inbox, shown.CanonicalInbox = api.Inbox(e.Inbox, e.Written)
	if e.About.ID != "" || e.About.Type != "" || e.About.Actor != "" {
		shown.Activity = &client.About{ID: e.About.ID, Type: e.About.Type, Actor: e.About.Actor}
	}
	return shown
}
