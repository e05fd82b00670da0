package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// The types of events.
const (
	RecipientGone   = "recipient.gone"   // the inbox has answered 404 or 410
	RecipientFailed = "recipient.failed" // the delivery was refused for good
	RecipientDead   = "recipient.dead"   // all attempts failed
	ServerUnhealthy = "server.unhealthy" // deliveries wait until the server answers again
	ServerExhausted = "server.exhausted" // it is down for longer than deliveries wait
	ServerGone      = "server.gone"      // it answers that it is gone
	ServerRecovered = "server.recovered" // it is back
	ActivityDone    = "activity.done"    // all recipients are finished (Submission.Notify)
	WebhookDown     = "webhook.disabled" // a webhook has failed for 5 days
	OutboxRefused   = "outbox.refused"   // a row of fedpost.outbox asks for what the API refuses
	WebhookTested   = "webhook.test"     // TestWebhook has asked for it; not in the feed
)

// Event is one entry of the feed of events. Fields that do not apply are left out.
type Event struct {
	ID             string    `json:"id"`
	Type           string    `json:"type"`
	Time           time.Time `json:"time"`
	ActivityID     string    `json:"activityId,omitempty"`
	Activity       *About    `json:"activity,omitempty"`
	Inbox          string    `json:"inbox,omitempty"`
	CanonicalInbox string    `json:"canonicalInbox,omitempty"` // as in RecipientStatus
	Host           string    `json:"host,omitempty"`
	Status         int       `json:"status,omitempty"`
	Reason         string    `json:"reason,omitempty"`
	Count          int       `json:"count,omitempty"`
	Since          time.Time `json:"since,omitzero"`
	// Counts is how many recipients of an activity that is done are in each state.
	Counts map[string]int `json:"counts,omitempty"`
	// Metadata is that of the activity's Submission.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// About has fields of the activity itself.
type About struct {
	ID    string `json:"id,omitempty"`
	Type  string `json:"type,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// Events is a page of the feed. Next is the cursor after it, and is never empty.
type Events struct {
	Events []Event `json:"events"`
	Next   string  `json:"next"`
	// More is true if there is more to read at once.
	More bool `json:"more"`
	// RetryAfter is set if too many readers wait already: how many seconds to wait before the next
	// request.
	RetryAfter int `json:"retryAfter,omitempty"`
}

// EventQuery says which page of the feed of events is asked for.
type EventQuery struct {
	// After is a cursor: the Next of the page before; "": from the oldest event on; "now": only
	// later events; "recent": from some dozens of events before the end on.
	After string
	Types []string
	Limit int // 0: as the server has it
	// Wait is how long to wait for an event if there is none, in whole seconds, 20 at most.
	Wait time.Duration
}

// EventPage returns a page of the feed of events.
func (c *Client) EventPage(ctx context.Context, q EventQuery) (Events, error) {
	query := queryOf("after", q.After, "type", strings.Join(q.Types, ","), "limit", numberOf(q.Limit), "wait", numberOf(int(q.Wait/time.Second)))
	page, err := get[Events](ctx, c, "/v1/events", query)
	if err == nil && page.Next == "" {
		return Events{}, fmt.Errorf("%w: GET /v1/events: it has no next: is the address right, and this client as new as fedpost?", ErrNotFedpost)
	}
	if err == nil && page.Next == q.After && (page.More || len(page.Events) > 0) {
		return Events{}, fmt.Errorf("%w: GET /v1/events: the feed does not move on: next is %.100q again", ErrNotFedpost, page.Next)
	}
	return page, err
}

// FeedEvent is an event of the feed, and the cursor after it.
type FeedEvent struct {
	Event
	// Cursor continues Events without losing an event. It moves on with the last event of a page;
	// before that, all events of the page come again, with the same ID.
	Cursor string
}

const (
	// longPoll is how long one request waits for an event.
	longPoll = 20 * time.Second
	// A server that answers without events within notWaited has not waited. The next request then
	// comes after a pause as long, unless the server names another.
	notWaited = 2 * time.Second
	// manyEmpty is how many empty pages in a row, each followed by more, are asked for without a
	// pause: a feed whose types are rare has some, a faulty server has them without end.
	manyEmpty = 1000
)

// Events follows the feed of events from a cursor on: the Cursor of an event that was handled;
// "" for the oldest event that is kept (30 days), or "now". It waits for new events and, once
// fedpost has answered this client, for fedpost itself. It ends with an error when ctx ends, when
// there is no first answer within the client's Patience, when fedpost refuses the request, or
// when the cursor does not move on. types, if any, selects events.
//
//	for e, err := range c.Events(ctx, cursor) {
//		if err != nil {
//			return err
//		}
//		… // handle e, and store e.Cursor in the same transaction
//	}
func (c *Client) Events(ctx context.Context, after string, types ...string) iter.Seq2[FeedEvent, error] {
	return func(yield func(FeedEvent, error) bool) {
		once := *c
		q := EventQuery{After: after, Types: types}
		empty := 0
		for pause := firstPause; ; {
			asked := time.Now()
			if c.answered.Load() {
				once.patience = 0 // and this loop waits without end
			}
			page, err := once.EventPage(ctx, q)
			wait := time.Duration(0)
			switch {
			case ctx.Err() != nil:
				yield(FeedEvent{}, ctx.Err())
				return
			case err != nil:
				if wait = c.pauseAfter(err, pause, true); wait < 0 || errors.Is(err, ErrNoAnswer) && !c.answered.Load() {
					yield(FeedEvent{}, err)
					return
				}
				pause = min(2*pause, longestPause)
			default:
				pause = firstPause
				for i, e := range page.Events {
					cursor := q.After
					if i == len(page.Events)-1 {
						cursor = page.Next
					}
					if !yield(FeedEvent{e, cursor}, nil) {
						return
					}
				}
				// A server with too many readers who wait, or one that stops, answers at once.
				if q.Wait > 0 && len(page.Events) == 0 && !page.More && (page.RetryAfter > 0 || time.Since(asked) < notWaited) {
					wait = max(notWaited, upToLongest(page.RetryAfter))
				}
				if empty++; len(page.Events) > 0 || !page.More {
					empty = 0
				}
				if empty > manyEmpty {
					wait = firstPause
				}
				q.After, q.Wait = page.Next, longPoll
			}
			if wait > 0 && sleep(ctx, wait) != nil {
				yield(FeedEvent{}, ctx.Err())
				return
			}
		}
	}
}
