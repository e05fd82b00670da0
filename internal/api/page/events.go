package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fedpost/client"
)

type eventList struct {
	Filters []filter
	Events  []client.Event
	// Stream is the address of the events that follow.
	Stream string
}

var about = []choice{{"", "All"}, {"servers", "Servers and webhooks"}, {"gone", "Gone recipients"}, {"done", "Finished activities"}, {"failed", "Failed and dead"}}

var typesAbout = map[string][]string{
	"servers": {client.ServerUnhealthy, client.ServerExhausted, client.ServerGone, client.ServerRecovered, client.WebhookDown},
	"gone":    {client.RecipientGone},
	"done":    {client.ActivityDone},
	"failed":  {client.RecipientFailed, client.RecipientDead, client.OutboxRefused},
}

const (
	// shownEvents is how many events are shown at first.
	shownEvents = 100
	// eventReads is how many pages of recent events are read for that.
	eventReads = 10
)

func (p *Page) events(v *visit) error {
	chosen := v.r.URL.Query().Get("about")
	l := eventList{Filters: filters("/events", "about", chosen, about)}
	query := client.EventQuery{After: "recent", Limit: 1000, Types: typesAbout[chosen]}
	for range eventReads {
		page, err := v.api.EventPage(v.r.Context(), query)
		if err != nil {
			return err
		}
		l.Events = append(l.Events, page.Events...)
		l.Events = l.Events[max(0, len(l.Events)-shownEvents):]
		if query.After = page.Next; !page.More {
			break
		}
	}
	slices.Reverse(l.Events)
	l.Stream = "/events/stream?" + url.Values{"after": {query.After}, "type": {strings.Join(query.Types, ",")}}.Encode()
	return v.show("events", view{Title: "Events", Nav: "events", Data: l})
}

const (
	// streamTime is how long one response lasts: less than the server's limit. The browser
	// then continues with another request.
	streamTime = 25 * time.Second
	// streamWait is how long the API is asked to wait for an event.
	streamWait = 20 * time.Second
)

// stream sends events as they come, as rows of the page's table: server-sent events.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
func (p *Page) stream(v *visit) error {
	q := v.r.URL.Query()
	query := client.EventQuery{After: q.Get("after"), Limit: shownEvents}
	if last := v.r.Header.Get("Last-Event-ID"); last != "" {
		query.After = last
	}
	if types := q.Get("type"); types != "" {
		query.Types = strings.Split(types, ",")
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), streamTime)
	defer cancel()
	// An error of the first read can still be answered with its status.
	page, err := v.api.EventPage(ctx, query)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(v.w)
	if _, err := fmt.Fprint(v.w, "retry: 1000\n\n"); err != nil {
		return nil // the visitor has left
	}
	for {
		if err := p.writeRows(v.w, page, v.now()); err != nil {
			p.o.Log.DebugContext(ctx, "the client disconnected before the events were sent", "error", err)
			return nil
		}
		if err := out.Flush(); err != nil {
			return nil
		}
		// There were no events within the wait, or fedpost stops.
		if query.After = page.Next; query.Wait > 0 && len(page.Events) == 0 || ctx.Err() != nil {
			if page.RetryAfter > 0 {
				_, _ = fmt.Fprintf(v.w, "retry: %d000\n\n", page.RetryAfter) // or the visitor has left
			}
			return nil
		}
		query.Wait = streamWait
		if page, err = v.api.EventPage(ctx, query); err != nil {
			if ctx.Err() == nil {
				p.o.Log.InfoContext(ctx, "events cannot be read", "error", err)
			}
			return nil // the browser asks again
		}
	}
}

// writeRows writes a page of events as one server-sent event, the newest row first.
func (p *Page) writeRows(w http.ResponseWriter, page client.Events, now time.Time) error {
	if len(page.Events) == 0 {
		_, err := fmt.Fprint(w, ":\n\n") // fails if the visitor has left
		return err
	}
	rows := slices.Clone(page.Events)
	slices.Reverse(rows)
	var b bytes.Buffer
	if err := pages()["events"].ExecuteTemplate(&b, "rows", map[string]any{"Events": rows, "Now": now}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "id: %s\ndata: %s\n\n", page.Next, strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "\ndata: "))
	return err
}
