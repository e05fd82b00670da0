package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"fedpost/client"
)

type eventsCommand struct {
	remote
	Follow bool     `short:"f" help:"Print events as they come, from now on or from --after. With --json, print one event a line."`
	Type   []string `help:"Only events of these types, such as recipient.gone,recipient.dead." enum:"${events}"`
	After  string   `help:"Begin after this cursor (next of GET /v1/events); now: new events only."`
	Limit  positive `help:"List at most this many." default:"100"`
}

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
		p, err := api.EventPage(ctx, client.EventQuery{After: all.Next, Types: c.Type, Limit: min(1000, int(c.Limit)-len(all.Events))})
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

// follow prints events until it is interrupted. If fedpost cannot be reached at first, that is an error;
// later follow waits for it.
func (c eventsCommand) follow(ctx context.Context, api *client.Client, out io.Writer) error {
	first, err := api.EventPage(ctx, client.EventQuery{After: cmp.Or(c.After, "now"), Types: c.Type})
	if err != nil {
		return err
	}
	for _, e := range first.Events {
		if err := c.print(out, e); err != nil {
			return err
		}
	}
	for e, err := range api.Events(ctx, first.Next, c.Type...) {
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = c.print(out, e.Event)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	return table(out, []string{"TIME", "TYPE", "WHAT"}, rowsOf(all, func(e client.Event) []string {
		return []string{when(e.Time), e.Type, what(e)}
	}))
}

// what formats an event as one line.
func what(e client.Event) string {
	s := cmp.Or(e.Inbox, e.Host)
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
