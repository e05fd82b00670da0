package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"fedpost/client"
)

type outboxCommand struct {
	List  outboxList  `cmd:"" help:"List rows of the table fedpost.outbox."`
	Retry outboxRetry `cmd:"" help:"Retry refused rows."`
	Drop  outboxDrop  `cmd:"" help:"Remove refused rows."`
}

type outboxList struct {
	remote
	State string   `help:"Only rows in this state: waiting, accepted or refused." enum:",waiting,accepted,refused" default:""`
	Limit positive `help:"List at most this many." default:"100"`
}

func (c outboxList) Run(ctx context.Context, out io.Writer) error {
	entries := func(api *client.Client) iter.Seq2[client.OutboxRow, error] {
		return api.Outbox(ctx, c.State, int(c.Limit))
	}
	return list(ctx, c.remote, out, c.Limit, entries, func(out io.Writer, all []client.OutboxRow) error {
		return table(out, []string{"ID", "CREATED", "STATE", "TRIES", "ACTIVITY OR PROBLEM"}, rowsOf(all, func(r client.OutboxRow) []string {
			became := r.Activity
			if r.Problem != nil {
				became = r.Problem.Error()
			}
			return []string{r.ID, when(r.CreatedAt), r.State, count(r.Tries), became}
		}))
	})
}

// refusedRows are the flags that select rows that were refused.
type refusedRows struct {
	ID    string   `help:"Only the row of this id."`
	All   bool     `help:"All refused rows."`
	Limit positive `help:"At most this many." default:"1000"`
}

func (c refusedRows) selected() (client.OutboxSelection, error) {
	if (c.ID != "") == c.All {
		return client.OutboxSelection{}, mistaken("say which: --id or --all")
	}
	if c.Limit > mostRows {
		return client.OutboxSelection{}, mistaken("--limit is %d; one call changes %d rows at most", c.Limit, mostRows)
	}
	return client.OutboxSelection{ID: c.ID, Limit: int(c.Limit)}, nil
}

// mostRows is how many rows one call to the API changes, at most.
const mostRows = 10_000

// changed calls the API for the selected rows. A row of an id that is not there, or is not
// refused, is an error.
func changed[T any](ctx context.Context, c refusedRows, r remote, out io.Writer, past string, call func(*client.Client, client.OutboxSelection) (T, int, bool, error)) error {
	s, err := c.selected()
	if err != nil {
		return err
	}
	api, err := r.client(ctx)
	if err != nil {
		return err
	}
	answer, n, more, err := call(api, s)
	switch {
	case err != nil:
		return err
	case n == 0 && s.ID != "":
		return fmt.Errorf("no refused row has the id %s; see fedpost outbox list --state refused", s.ID)
	}
	return showDone(r, out, past, n, more, answer)
}

type outboxRetry struct {
	remote
	refusedRows
}

func (c outboxRetry) Run(ctx context.Context, out io.Writer) error {
	return changed(ctx, c.refusedRows, c.remote, out, "retried", func(api *client.Client, s client.OutboxSelection) (client.Retried, int, bool, error) {
		r, err := api.RetryOutbox(ctx, s)
		return r, r.Retried, r.More, err
	})
}

type outboxDrop struct {
	remote
	refusedRows
}

func (c outboxDrop) Run(ctx context.Context, out io.Writer) error {
	return changed(ctx, c.refusedRows, c.remote, out, "dropped", func(api *client.Client, s client.OutboxSelection) (client.Dropped, int, bool, error) {
		d, err := api.DropOutbox(ctx, s)
		return d, d.Dropped, d.More, err
	})
}
