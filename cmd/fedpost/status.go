package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"fedpost/internal/api/client"
)

// handed are the flags and the argument of commands about one activity.
type handed struct {
	remote
	ID string `arg:"" help:"The activity's id, as send prints it."`
}

func (a handed) path() string { return "/v1/activities/" + url.PathEscape(strings.TrimSpace(a.ID)) }

// status shows what has become of an activity.
type status struct {
	handed
	Limit positive `help:"List at most this many recipients." default:"50"`
	State string   `help:"List only recipients in this state, such as failed." enum:"${states}" default:""`
	Host  string   `help:"List only recipients on this host."`
	Wait  bool     `help:"Wait until every recipient has come to its end. Exit status: 0 if none missed the activity, 3 if some did, 1 for everything else."`
}

// Run shows.
func (c status) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	var missed error
	if c.Wait {
		var exit exitError
		if missed = c.await(ctx, api); missed != nil && !errors.As(missed, &exit) {
			return missed
		}
	}
	return errors.Join(c.show(ctx, api, out), missed)
}

func (c status) show(ctx context.Context, api *client.Client, out io.Writer) error {
	var whole map[string]json.RawMessage
	if err := api.Do(ctx, http.MethodGet, c.path()+"?limit=1", nil, &whole); err != nil {
		return err
	}
	recipients, err := api.List(ctx, c.path(), c.filter(), "recipients", int(c.Limit), 1000)
	if err != nil {
		return err
	}
	delete(whole, "nextCursor")
	if whole["recipients"], err = json.Marshal(recipients); err != nil {
		return fmt.Errorf("join pages of recipients: %w", err)
	}
	if c.JSON {
		return printJSON(out, whole)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return fmt.Errorf("join pages of recipients: %w", err)
	}
	var s client.Status
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("GET %s: answer: %w", c.path(), err)
	}
	if err := showStatus(out, s); err != nil {
		return err
	}
	if len(recipients) == int(c.Limit) {
		_, err = fmt.Fprintf(out, "The first %d; there may be more: --limit.\n", int(c.Limit))
	}
	return err
}

// filter is the query for the recipients to list.
func (c status) filter() url.Values {
	q := url.Values{}
	if c.State != "" {
		q.Set("state", c.State)
	}
	if c.Host != "" {
		q.Set("host", c.Host)
	}
	return q
}

func showStatus(out io.Writer, s client.Status) error {
	if err := showCounts(out, s); err != nil {
		return err
	}
	rows := make([][]string, len(s.Recipients))
	for i, r := range s.Recipients {
		rows[i] = []string{r.State, count(r.Attempts), count(r.LastStatus), when(r.NextAttemptAt), r.Inbox, r.WaitsFor, r.LastError}
	}
	return table(out, []string{"STATE", "ATTEMPTS", "STATUS", "NEXT", "INBOX", "WAITS FOR", "ERROR"}, rows)
}

func showCounts(out io.Writer, s client.Status) error {
	_, err := fmt.Fprintf(out, "%s: %s (%s)\n", s.ID, s.Status, counts(s.Counts))
	return err
}

// cancel stops an activity.
type cancel struct{ handed }

// Run stops it and shows how far it got.
func (c cancel) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, c.remote, out, http.MethodPost, c.path()+"/cancel", nil, showCancelled)
}

func showCancelled(out io.Writer, s client.Cancelled) error {
	_, err := fmt.Fprintf(out, "%s: %s (%s)\n", s.ID, s.Status, counts(s.Counts))
	return err
}
