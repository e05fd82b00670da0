package webhook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
)

// Event is one event of the feed, as it is sent.
type Event struct {
	ID   string
	Type string
	Time time.Time
	JSON string
}

// Feed is where events come from.
type Feed interface {
	// After returns events after a cursor and the cursor of the last; more: there are more to read.
	After(ctx context.Context, cursor string, limit int) (all []Event, next string, more bool, err error)
}

// Sending is one request to be made to a webhook.
type Sending struct {
	Activity activity.Activity
	URL      string
	// Test: the request is sent whatever is known of the server.
	Test bool
}

// Pump queues requests for new events to webhooks, and disables webhooks that fail for too long.
type Pump struct {
	Store Store
	Feed  Feed
	// Hand puts requests on their queue. It may be repeated.
	Hand func(ctx context.Context, all []Sending) error
	// Counted, if set, is called with Trouble and the number of webhooks that have failed for
	// troubledAfter or are disabled, unless it is zero.
	Counted func(what string, n int)
}

// Trouble is the name that Pump.Counted is called with.
const Trouble = "WebhooksFailing"

// troubledAfter is longer than a restart or a deployment of a webhook's server takes.
const troubledAfter = time.Hour

// troubled reports whether its operator should look at w.
func (w Webhook) troubled(now time.Time) bool {
	return !w.DisabledAt.IsZero() || !w.FailingSince.IsZero() && now.Sub(w.FailingSince) >= troubledAfter
}

// step is how many events are read at a time, and mostSteps how often in one run.
const (
	step      = 1000
	mostSteps = 10
)

// Check implements protocol.Upkeep.
func (p *Pump) Check(ctx context.Context, now time.Time) error {
	all, err := p.Store.Webhooks(ctx)
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	troubled := 0
	for _, w := range all {
		if w.troubled(now) {
			troubled++
		}
	}
	if troubled > 0 && p.Counted != nil {
		p.Counted(Trouble, troubled)
	}
	var errs []error
	for range mostSteps {
		var rest []Webhook
		for _, w := range all {
			if late(ctx) {
				return errors.Join(errs...) // the next run goes on
			}
			next, more, err := p.one(ctx, w, now)
			switch {
			case err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotFound):
				errs = append(errs, fmt.Errorf("webhook %s: %w", w.ID, err))
			case err == nil && more && ctx.Err() == nil:
				rest = append(rest, next)
			}
		}
		if all = rest; len(all) == 0 {
			break
		}
	}
	return errors.Join(errs...)
}

// reserve is the time before the end of a run in which no step begins: a step that is cut off fails the
// run.
const reserve = 10 * time.Second

func late(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < reserve
}

// one takes one step for a webhook, so that a backlog of one keeps no other waiting. more: there is more
// to do at once.
func (p *Pump) one(ctx context.Context, w Webhook, now time.Time) (_ Webhook, more bool, err error) {
	switch {
	case !w.DisabledAt.IsZero():
		return w, false, nil
	case !w.FailingSince.IsZero() && now.Sub(w.FailingSince) >= GiveUp:
		w.DisabledAt = now
		w, err = p.Store.DisableWebhook(ctx, w)
		return w, false, err
	}
	found, next, more, err := p.Feed.After(ctx, w.Cursor, step)
	if err != nil || next == w.Cursor {
		return w, false, err
	}
	var wanted []Event
	for _, e := range found {
		if w.Wants(e.Type) {
			wanted = append(wanted, e)
		}
	}
	if err := p.Hand(ctx, w.Sendings(wanted, now)); err != nil {
		return w, false, err
	}
	w.Cursor = next
	w, err = p.Store.SaveWebhook(ctx, w)
	return w, more, err
}

// mostBytes bounds the body of a request with several events.
const mostBytes = 200 << 10

// Sendings are the requests that take events to w.
func (w Webhook) Sendings(all []Event, now time.Time) (sendings []Sending) {
	if !w.Batch {
		for _, e := range all {
			sendings = append(sendings, w.sending(e, e.ID, e.JSON, now))
		}
		return sendings
	}
	for len(all) > 0 {
		n, bytes := 0, 0
		for n < len(all) && n < MostInRequest && (n == 0 || bytes+len(all[n].JSON) <= mostBytes) {
			bytes += len(all[n].JSON)
			n++
		}
		texts := make([]string, n)
		var ids strings.Builder
		for i, e := range all[:n] {
			texts[i] = e.JSON
			ids.WriteString(e.ID)
		}
		// The id names all of them: a request with other events is another request.
		id := activity.DerivedID(all[0].Time, w.ID+" "+ids.String())
		sendings = append(sendings, w.sending(all[0], "msg_"+string(id), `{"events":[`+strings.Join(texts, ",")+`]}`, now))
		all = all[n:]
	}
	return sendings
}

func (w Webhook) sending(first Event, id, body string, now time.Time) Sending {
	kind := first.Type
	if w.Batch {
		kind = "events"
	}
	// The id holds the webhook's creation time, to the nanosecond, which strangers do not know: so
	// who knows an event cannot guess the request's id.
	made := strconv.FormatInt(w.CreatedAt.UnixNano(), 36)
	if !w.Anew.IsZero() {
		made += " " + strconv.FormatInt(w.Anew.UnixNano(), 36)
	}
	return Sending{URL: w.URL, Activity: activity.Activity{
		ID: activity.DerivedID(first.Time, "webhook "+w.ID+" "+made+" "+id), Protocol: Name, Body: body, Type: kind,
		Options: activity.Options{KeyID: w.ID, Job: id, Priority: activity.Normal}, CreatedAt: now,
	}}
}
