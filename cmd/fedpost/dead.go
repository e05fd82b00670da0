package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"fedpost/client"
)

type dead struct {
	List  deadList  `cmd:"" help:"List dead letters."`
	Retry deadRetry `cmd:"" help:"Retry dead letters, with fresh attempts."`
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
	since, err := sinceOf(s.Since, now)
	return client.Selection{ID: s.ID, Host: s.Host, Activity: s.Activity, Type: s.Type, Since: since}, err
}

// sinceOf is the time that a flag --since says; zero if the flag is not given.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var ago duration
	if err := ago.UnmarshalText([]byte(text)); err == nil && ago > 0 {
		return now.Add(-time.Duration(ago)).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, mistaken("--since %s is neither a time such as 2026-11-21T08:00:00Z nor a duration such as 36h or 7d", text)
	}
	return at.UTC(), nil
}

type deadList struct {
	remote
	selection
	Limit positive `help:"List at most this many." default:"100"`
}

func (c deadList) Run(ctx context.Context, out io.Writer) error {
	s, err := c.selected(time.Now())
	if err != nil {
		return err
	}
	s.Limit = int(c.Limit)
	return list(ctx, c.remote, out, c.Limit, func(api *client.Client) iter.Seq2[client.DeadLetter, error] { return api.DeadLetters(ctx, s) }, showDead)
}

func showDead(out io.Writer, all []client.DeadLetter) error {
	rows := rowsOf(all, func(d client.DeadLetter) []string {
		return []string{when(d.DiedAt), d.Inbox, cmp.Or(d.Job, d.Type), d.LastAnswer(), count(d.Attempts), d.Reason, d.ID}
	})
	if err := table(out, []string{"DIED", "INBOX", "WHAT", "LAST ANSWER", "ATTEMPTS", "GIVEN UP", "ID"}, rows); err != nil {
		return err
	}
	s, _ := out.(screen)
	_, err := fmt.Fprintln(out, wrapped("last answers: "+plain(strings.Join(client.LastAnswers(all), ", ")), s.width, 2))
	return err
}

type deadRetry struct {
	remote
	selection
	Limit  positive `help:"Retry at most this many." default:"1000"`
	Failed bool     `help:"Also retry recipients that refused for good and have no dead letters. A few more than --limit may be retried."`
}

// step is how many dead letters one call to the API retries or drops, so that none exceeds the API's
// time limit.
const step = 1000

// inSteps retries or drops at most limit of the selected dead letters, in several calls, and prints
// how many. past is the verb for those that are done, and answer what is printed as JSON.
func (s selection) inSteps(ctx context.Context, r remote, out io.Writer, past string, limit int, call func(*client.Client, client.Selection) (n int, more bool, err error), answer func(done int, more bool) any) error {
	c, err := s.selected(time.Now())
	if err != nil {
		return err
	}
	if c == (client.Selection{}) {
		return mistaken("say which: --id, --host, --activity, --type or --since")
	}
	api, err := r.client(ctx)
	if err != nil {
		return err
	}
	for done := 0; ; {
		c.Limit = min(step, limit-done)
		n, more, err := call(api, c)
		switch {
		case err != nil && done > 0:
			return fmt.Errorf("%d %s so far: %w", done, past, err)
		case err != nil:
			return err
		}
		if done += n; !more || n == 0 || done >= limit {
			return showDone(r, out, past, done, more, answer(done, more))
		}
	}
}

// showDone prints how many of something are done, or the answer as JSON.
func showDone(r remote, out io.Writer, past string, done int, more bool, answer any) error {
	if r.JSON {
		return printJSON(out, answer)
	}
	rest := ""
	if more {
		rest = "; there may be more"
	}
	_, err := fmt.Fprintf(out, "%d %s%s\n", done, past, rest)
	return err
}

func (c deadRetry) Run(ctx context.Context, out io.Writer) error {
	cursor := ""
	return c.inSteps(ctx, c.remote, out, "retried", int(c.Limit), func(api *client.Client, s client.Selection) (n int, more bool, err error) {
		s.Failed = c.Failed
		for {
			s.Cursor = cursor
			r, err := api.RetryDeadLetters(ctx, s)
			// A call that searches for failed recipients may find none.
			if cursor = r.NextCursor; err != nil || r.Retried > 0 || cursor == "" {
				return r.Retried, r.More, err
			}
		}
	}, func(done int, more bool) any { return client.Retried{Retried: done, More: more} })
}

type deadDrop struct {
	remote
	selection
	Limit positive `help:"Drop at most this many." default:"1000"`
}

func (c deadDrop) Run(ctx context.Context, out io.Writer) error {
	return c.inSteps(ctx, c.remote, out, "dropped", int(c.Limit), func(api *client.Client, s client.Selection) (int, bool, error) {
		d, err := api.DropDeadLetters(ctx, s)
		return d.Dropped, d.More, err
	}, func(done int, more bool) any { return client.Dropped{Dropped: done, More: more} })
}
