package main

import (
	"context"
	"encoding/json"
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
	Limit int `help:"List at most this many recipients." default:"50"`
}

// Run shows.
func (c status) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	var whole map[string]json.RawMessage
	if err := api.Do(ctx, http.MethodGet, c.path()+"?limit=1", nil, &whole); err != nil {
		return err
	}
	recipients, err := api.List(ctx, c.path(), url.Values{}, "recipients", c.Limit, 1000)
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
	if len(recipients) == c.Limit {
		_, err = fmt.Fprintf(out, "The first %d; there may be more: --limit.\n", c.Limit)
	}
	return err
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
