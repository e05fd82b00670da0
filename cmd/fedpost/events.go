package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"fedpost/internal/api/client"
)

type eventsCommand struct {
	remote
	Follow bool     `short:"f" help:"Go on with events as they come, beginning now unless --after is given. With --json, print one event a line."`
	Type   []string `help:"Only events of these types, such as recipient.gone,recipient.dead." enum:"${events}"`
	After  string   `help:"Begin behind this cursor, as GET /v1/events gives it as next; now: with what comes."`
	Limit  positive `help:"List at most this many." default:"100"`
}

// longPoll is how long one call waits for events.
const longPoll = 20 * time.Second

// refusedWait is a wait so short that the server has not waited, and how long a follower
// waits by itself before it asks again, unless the server says how long.
const refusedWait = 2 * time.Second

// Run lists events, or follows them.
func (c eventsCommand) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	if c.Follow {
		return c.follow(ctx, api, out)
	}
	all := client.Events{Events: []client.Event{}, Next: c.After}
	for {
		p, err := api.Events(ctx, client.EventQuery{After: all.Next, Types: c.Type, Limit: min(1000, int(c.Limit)-len(all.Events))})
		if err != nil {
			return err
		}
		all.Events = append(all.Events, p.Events...)
		all.Next, all.More = p.Next, p.More
		if !p.More || len(all.Events) >= int(c.Limit) {
			break
		}
	}
	if c.JSON {
		return printJSON(out, all)
	}
	if len(all.Events) == 0 {
		_, err := fmt.Fprintln(out, "none")
		return err
	}
	if err := showEvents(out, all.Events); err != nil {
		return err
	}
	if all.More {
		_, err = fmt.Fprintf(out, "The first %d; go on with --after %s\n", len(all.Events), all.Next)
	}
	return err
}

// follow prints events until it is interrupted. While the server cannot be reached, it
// tries again: it misses nothing, because it has a cursor.
func (c eventsCommand) follow(ctx context.Context, api *client.Client, out io.Writer) error {
	q := client.EventQuery{After: c.After, Types: c.Type}
	if q.After == "" {
		q.After = "now"
	}
	for {
		asked := time.Now()
		p, err := api.Events(ctx, q)
		var refused *client.Problem
		switch errors.As(err, &refused); {
		case ctx.Err() != nil:
			return nil
		case err != nil && q.Wait == 0, refused != nil && refused.Status < 500 && refused.RetryAfter == 0:
			return err
		case err != nil:
			again := refusedWait
			if refused != nil {
				again = cmp.Or(refused.RetryAfter, again)
			}
			if wait(ctx, again) != nil {
				return nil
			}
			continue
		}
		// A server with too many who wait, or one that stops, answers at once.
		if q.Wait > 0 && len(p.Events) == 0 && !p.More && (p.RetryAfter > 0 || time.Since(asked) < refusedWait) {
			if wait(ctx, cmp.Or(time.Duration(p.RetryAfter)*time.Second, refusedWait)) != nil {
				return nil
			}
		}
		q.After, q.Wait = p.Next, longPoll
		for _, e := range p.Events {
			if err := c.print(out, e); err != nil {
				return err
			}
		}
	}
}

func (c eventsCommand) print(out io.Writer, e client.Event) error {
	if c.JSON {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("print an event: %w", err)
		}
		_, err = fmt.Fprintln(out, escaped(string(line)))
		return err
	}
	_, err := fmt.Fprintf(out, "%s  %-17s  %s\n", when(e.Time), e.Type, what(e))
	return err
}

func showEvents(out io.Writer, all []client.Event) error {
	rows := make([][]string, len(all))
	for i, e := range all {
		rows[i] = []string{when(e.Time), string(e.Type), what(e)}
	}
	return table(out, []string{"TIME", "TYPE", "WHAT"}, rows)
}

// what is an event in a line.
func what(e client.Event) string {
	s := e.Inbox
	if s == "" {
		s = e.Host
	}
	if e.Count > 1 {
		s += fmt.Sprintf(" (%d times since %s)", e.Count, when(e.Since))
	}
	if e.ActivityID != "" {
		s += " " + e.ActivityID
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}
