package main

import (
	"context"
	"fmt"
	"io"

	"fedpost/client"
)

// retry gives recipients of an activity fresh attempts.
type retry struct {
	handed
	State []string `help:"Only recipients in this state: failed or dead. Default: both." enum:"failed,dead"`
	Inbox []string `help:"Only this inbox. Repeat the flag for more." sep:"none"`
}

// Run retries in as many calls as it takes, because each has its time limit.
func (c retry) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	ask := client.Retry{States: c.State, Inboxes: c.Inbox}
	var sum client.RetriedActivity
	for {
		done, err := api.Retry(ctx, c.id(), ask)
		if err != nil {
			if sum.Retried > 0 {
				return fmt.Errorf("%d retried so far: %w", sum.Retried, err)
			}
			return err
		}
		sum.ID, sum.Retried, sum.Unavailable = done.ID, sum.Retried+done.Retried, sum.Unavailable+done.Unavailable
		if ask.Cursor = done.NextCursor; ask.Cursor == "" {
			break
		}
	}
	if c.JSON {
		return printJSON(out, sum)
	}
	lost := ""
	switch {
	case sum.Retried == 0 && sum.Unavailable == 0:
		lost = ": no recipient that was asked for has failed or is dead"
	case sum.Unavailable > 0:
		lost = fmt.Sprintf(", %d unavailable", sum.Unavailable)
	}
	_, err = fmt.Fprintf(out, "%s: %d retried%s\n", sum.ID, sum.Retried, lost)
	return err
}
