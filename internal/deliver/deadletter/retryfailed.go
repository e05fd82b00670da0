package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
)

// FailedRetrier retries failed recipients by the filters of dead letters. Failed recipients are
// in no index, which would cost a write per failure; but each has an event. So failures are
// found for as long as events are kept, by reading all events since then.
type FailedRetrier struct {
	Retrier Retrier
	Feed    Feed
}

// Feed is the part of events.Store that FailedRetrier needs.
type Feed interface {
	Events(ctx context.Context, after string, limit int) (events.Page, error)
	// EventsSince returns the cursor before the first event at or after since.
	EventsSince(ctx context.Context, since time.Time) (string, error)
}

// failedStep is how many events are read at once. Each of their activities is looked up.
const failedStep = 25

// RetryFailed retries about limit failed recipients that f selects, from a cursor on, until the
// time is end. It returns how many, and the cursor for the rest, "" at the end. Its error wraps
// ErrBadCursor. A filter by the name of a dead letter selects none.
func (r FailedRetrier) RetryFailed(ctx context.Context, f Filter, cursor string, limit int, end time.Time) (n int, next string, err error) {
	switch {
	case f.Name != Name{}:
		return 0, "", nil
	case f.Activity != "":
		return r.ofActivity(ctx, f, cursor, end)
	case cursor == "":
		if cursor, err = r.Feed.EventsSince(ctx, f.Since); err != nil {
			return 0, "", fmt.Errorf("retry what has failed: %w", err)
		}
	default:
		var ok bool
		if cursor, ok = strings.CutPrefix(cursor, feedCursor); !ok {
			return 0, "", fmt.Errorf("%w: %q", ErrBadCursor, cursor)
		}
	}
	for {
		page, err := r.Feed.Events(ctx, cursor, failedStep)
		if errors.Is(err, events.ErrBadCursor) {
			err = fmt.Errorf("%w: %w", ErrBadCursor, err)
		}
		if err != nil {
			return n, "", fmt.Errorf("retry what has failed: %w", err)
		}
		some, err := r.retryEvents(ctx, f, page.Events)
		if n += some; err != nil {
			return n, "", fmt.Errorf("retry what has failed: %w", err)
		}
		if cursor = page.Next; !page.More {
			return n, "", nil
		}
		if n >= limit || !r.Retrier.Reviver.Now().Before(end) {
			return n, feedCursor + cursor, nil
		}
	}
}

const feedCursor = "event."

func (r FailedRetrier) retryEvents(ctx context.Context, f Filter, es []events.Event) (n int, err error) {
	inboxes := map[activity.ID]map[string]bool{}
	var ids []activity.ID
	for _, e := range es {
		if e.Kind != events.RecipientFailed && e.Kind != events.RecipientGone || f.Host != "" && e.Host != f.Host ||
			f.Type != "" && e.About.Type != f.Type || e.Time.Before(f.Since) {
			continue
		}
		if inboxes[e.ActivityID] == nil {
			inboxes[e.ActivityID] = map[string]bool{}
			ids = append(ids, e.ActivityID)
		}
		inboxes[e.ActivityID][e.Inbox] = true
	}
	for _, id := range ids {
		some, _, err := r.one(ctx, id, Choice{Failed: true, Inboxes: inboxes[id]}, "", time.Time{})
		if n += some; err != nil {
			return n, err
		}
	}
	return n, nil
}

// ofActivity retries recipients of one activity, by its own records.
func (r FailedRetrier) ofActivity(ctx context.Context, f Filter, cursor string, end time.Time) (int, string, error) {
	if f.Type != "" {
		a, err := r.Retrier.Ledger.Content(ctx, f.Activity)
		switch {
		case unavailable(err) || err == nil && a.Type != f.Type:
			return 0, "", nil
		case err != nil:
			return 0, "", err
		}
	}
	return r.one(ctx, f.Activity, Choice{Failed: true, Host: f.Host, Since: f.Since}, cursor, end)
}

// one retries recipients of an activity, which may have no record any more. A zero end: no
// limit.
func (r FailedRetrier) one(ctx context.Context, id activity.ID, c Choice, cursor string, end time.Time) (n int, next string, err error) {
	if end.IsZero() {
		end = r.Retrier.Reviver.Now().Add(time.Hour)
	}
	done, err := r.Retrier.Retry(ctx, id, c, cursor, end)
	if errors.Is(err, ErrCancelled) || errors.Is(err, ErrExpired) || errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	return done.Sent, done.Next, err
}
