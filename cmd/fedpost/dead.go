package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"fedpost/internal/api/client"
)

type dead struct {
	List  deadList  `cmd:"" help:"List dead letters."`
	Retry deadRetry `cmd:"" help:"Send dead letters again, with fresh attempts."`
	Drop  deadDrop  `cmd:"" help:"Drop dead letters: their recipients stay dead."`
}

// selection are the flags that select dead letters.
type selection struct {
	ID       string `help:"Only the dead letter of this id."`
	Host     string `help:"Only dead letters for this host."`
	Activity string `help:"Only dead letters of this activity id."`
	Type     string `help:"Only dead letters of this activity type, such as Create."`
	Since    string `help:"Only dead letters since a time such as 2026-11-21T08:00:00Z, or within a duration, such as 36h or 7d."`
}

func (s selection) selected(now time.Time) (client.Selection, error) {
	c := client.Selection{ID: s.ID, Host: s.Host, Activity: s.Activity, Type: s.Type}
	if s.Since == "" {
		return c, nil
	}
	var ago duration
	if err := ago.UnmarshalText([]byte(s.Since)); err == nil && ago > 0 {
		c.Since = now.Add(-time.Duration(ago)).UTC()
		return c, nil
	}
	at, err := time.Parse(time.RFC3339, s.Since)
	if err != nil {
		return c, fmt.Errorf("--since %s is neither a time such as 2026-11-21T08:00:00Z nor a duration such as 36h or 7d", s.Since)
	}
	c.Since = at.UTC()
	return c, nil
}

type deadList struct {
	remote
	selection
	Limit int `help:"List at most this many." default:"100"`
}

// Run lists.
func (c deadList) Run(ctx context.Context, out io.Writer) error {
	s, err := c.selected(time.Now())
	if err != nil {
		return err
	}
	return list(ctx, c.remote, out, "/v1/dead-letters", s.Query(), "deadLetters", c.Limit, 200, showDead)
}

func showDead(out io.Writer, all []client.DeadLetter) error {
	rows := make([][]string, len(all))
	for i, d := range all {
		what := d.Type
		if d.Job != "" {
			what = d.Job
		}
		rows[i] = []string{when(d.DiedAt), d.Inbox, what, d.Reason, count(d.Attempts), count(d.LastStatus), d.LastError, d.ID}
	}
	return table(out, []string{"DIED", "INBOX", "WHAT", "REASON", "ATTEMPTS", "STATUS", "ERROR", "ID"}, rows)
}

type deadRetry struct {
	remote
	selection
	Limit int `help:"Retry at most this many." default:"1000"`
}

// step is how many dead letters one call to the API retries.
const step = 1000

// Run retries in several calls, so that none runs into the time limit of the API.
func (c deadRetry) Run(ctx context.Context, out io.Writer) error {
	s, err := c.selected(time.Now())
	if err != nil {
		return err
	}
	if s == (client.Selection{}) {
		return errors.New("say which: --id, --host, --activity, --type or --since")
	}
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	var done client.Retried
	for {
		s.Limit = min(step, c.Limit-done.Retried)
		r, err := api.RetryDeadLetters(ctx, s)
		switch {
		case err != nil && done.Retried > 0:
			return fmt.Errorf("%d retried so far: %w", done.Retried, err)
		case err != nil:
			return err
		}
		done.Retried, done.More = done.Retried+r.Retried, r.More
		if !r.More || r.Retried == 0 || done.Retried >= c.Limit {
			break
		}
	}
	if c.JSON {
		return printJSON(out, done)
	}
	more := ""
	if done.More {
		more = "; there may be more"
	}
	_, err = fmt.Fprintf(out, "%d retried%s\n", done.Retried, more)
	return err
}

type deadDrop struct {
	remote
	selection
	Limit int `help:"Drop at most this many." default:"1000"`
}

// Run drops in several calls, as Retry does.
func (c deadDrop) Run(ctx context.Context, out io.Writer) error {
	s, err := c.selected(time.Now())
	if err != nil {
		return err
	}
	if s == (client.Selection{}) {
		return errors.New("say which: --id, --host, --activity, --type or --since")
	}
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	var done client.Dropped
	for {
		q := s.Query()
		q.Set("limit", strconv.Itoa(min(step, c.Limit-done.Dropped)))
		var d client.Dropped
		err := api.Do(ctx, http.MethodDelete, "/v1/dead-letters?"+q.Encode(), nil, &d)
		switch {
		case err != nil && done.Dropped > 0:
			return fmt.Errorf("%d dropped so far: %w", done.Dropped, err)
		case err != nil:
			return err
		}
		done.Dropped, done.More = done.Dropped+d.Dropped, d.More
		if !d.More || d.Dropped == 0 || done.Dropped >= c.Limit {
			break
		}
	}
	if c.JSON {
		return printJSON(out, done)
	}
	more := ""
	if done.More {
		more = "; there may be more"
	}
	_, err = fmt.Fprintf(out, "%d dropped%s\n", done.Dropped, more)
	return err
}
