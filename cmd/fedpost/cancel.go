package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/app/progress"
	"fedpost/internal/ledger"
)

// cancel stops an activity, or all that match.
type cancel struct {
	remote
	ID    string `arg:"" optional:"" help:"The activity's id, as send prints it. Without it: all activities that match the flags."`
	Actor string `help:"Only activities of this actor, by id."`
	Type  string `help:"Only activities of this type, such as Create."`
	Since string `help:"Only activities accepted since a time, such as 2026-11-21T08:00:00Z, or within a duration, such as 36h. At most, and by default, 60d."`
	Until string `help:"Only activities accepted before a time, or a duration ago."`
	After string `help:"Continue after an interrupted run: the cursor that it printed last." placeholder:"CURSOR"`
}

// Run stops it and shows how far it got.
func (c cancel) Run(ctx context.Context, out io.Writer) error {
	many := c.Actor != "" || c.Type != "" || c.Since != "" || c.Until != ""
	switch id := strings.TrimSpace(c.ID); {
	case id != "" && many:
		return mistaken("give an id, or flags that say which activities, not both")
	case id != "":
		return call(ctx, c.remote, out, func(api *client.Client) (client.Cancelled, error) { return api.Cancel(ctx, id) }, showCancelled)
	case !many:
		return mistaken("say which: an id, --actor, --type, --since or --until")
	}
	return c.all(ctx, out)
}

func (c cancel) all(ctx context.Context, out io.Writer) error {
	now := time.Now()
	since, err := sinceOf(c.Since, now)
	if err != nil {
		return err
	}
	until, err := sinceOf(c.Until, now)
	if err != nil {
		return err
	}
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	ask := client.ActivitySelection{Actor: c.Actor, Type: c.Type, Since: since, Until: until, Cursor: c.After}
	watched, stop := shown(ctx)
	sum, err := cancelMany(watched, api, ask, cmp.Or(until, now), cmp.Or(since, now.Add(-ledger.LongestBack)))
	stop()
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, sum)
	}
	_, err = fmt.Fprintf(out, "activities cancelled: %d, finished before: %d\n", sum.Cancelled, sum.Over)
	return err
}

// cancelMany cancels from the newest to the oldest, in several calls. If one fails, the cursor says where
// to continue.
func cancelMany(ctx context.Context, api *client.Client, ask client.ActivitySelection, newest, oldest time.Time) (sum client.CancelledActivities, err error) {
	begun := time.Now()
	for {
		done, err := api.CancelMany(ctx, ask)
		if err != nil {
			if ask.Cursor != "" {
				err = fmt.Errorf("%d cancelled so far; go on with --after %s: %w", sum.Cancelled, ask.Cursor, err)
			}
			return sum, err
		}
		sum.Cancelled, sum.Over, sum.Reached = sum.Cancelled+done.Cancelled, sum.Over+done.Over, cmp.Or(done.Reached, sum.Reached)
		if ask.Cursor = done.NextCursor; ask.Cursor == "" {
			return sum, nil
		}
		rest := left(begun, int64(newest.Sub(cmp.Or(sum.Reached, newest))), int64(newest.Sub(oldest)))
		progress.Begin(ctx, fmt.Sprintf("%d cancelled, back to %s%s", sum.Cancelled, when(sum.Reached), rest), nil)
	}
}

func showCancelled(out io.Writer, s client.Cancelled) error {
	_, err := fmt.Fprintf(out, "%s: %s (%s)\n", s.ID, s.Status, counts(s.Counts))
	return err
}
