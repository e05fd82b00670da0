package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"fedpost/client"
)

// handed are the flags and the argument of commands about one activity.
type handed struct {
	remote
	ID string `arg:"" help:"The activity's id, as send prints it."`
}

func (a handed) id() string { return strings.TrimSpace(a.ID) }

// status shows what has become of an activity.
type status struct {
	handed
	Limit positive `help:"List at most this many recipients." default:"50"`
	State string   `help:"List only recipients in this state, such as failed." enum:"${states}" default:""`
	Host  string   `help:"List only recipients on this host."`
	Body  bool     `help:"Print only the activity, if it is stored, as after a refusal."`
	Wait  bool     `help:"Wait until all recipients are finished. Exit status: 0 if none missed the activity, 3 if some did, 1 for everything else."`
}

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
	s, err := api.Progress(ctx, c.id())
	if err != nil {
		return err
	}
	about, err := collect(api.Activities(ctx, client.ActivityQuery{ID: c.id(), Body: c.Body}))
	if err != nil {
		return err
	}
	if c.Body {
		return showBody(out, about)
	}
	q := client.RecipientQuery{State: c.State, Host: c.Host, Limit: int(c.Limit)}
	if s.Recipients, err = collect(api.Recipients(ctx, c.id(), q)); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, s)
	}
	if err := showStatus(out, s, about); err != nil {
		return err
	}
	return showCut(out, len(s.Recipients), c.Limit)
}

// showStatus shows an activity, with its entry in the lists; Sipher jobs have none.
func showStatus(out io.Writer, s client.Status, about []client.FoundActivity) error {
	if err := showCounts(out, s); err != nil {
		return err
	}
	for _, a := range about {
		size := ""
		if a.Bytes > 0 {
			size = fmt.Sprintf("%d bytes", a.Bytes)
		}
		if err := facts(out, "type", a.Type, "actor", a.Actor, "activity", a.ActivityID, "object", a.Object, "accepted", when(a.CreatedAt), "size", size); err != nil {
			return err
		}
	}
	return table(out, []string{"STATE", "ATTEMPTS", "STATUS", "NEXT", "INBOX", "WAITS FOR", "REASON"}, rowsOf(s.Recipients, func(r client.RecipientStatus) []string {
		return []string{r.State, count(r.Attempts), count(r.LastStatus), when(r.NextAttemptAt), r.Inbox, r.WaitsFor, cmp.Or(r.Reason, r.LastError)}
	}))
}

func showBody(out io.Writer, about []client.FoundActivity) error {
	if len(about) == 0 || about[0].Body == "" {
		return errors.New("the activity itself is not stored: it is once a recipient has refused it")
	}
	_, err := fmt.Fprintln(out, strings.TrimSuffix(escaped(about[0].Body), "\n"))
	return err
}

func showCounts(out io.Writer, s client.Status) error {
	_, err := fmt.Fprintf(out, "%s: %s (%s)\n", s.ID, s.Status, counts(s.Counts))
	return err
}

// failedExit is the exit status of `status --wait` where some recipients did not get the
// activity, so that a script can distinguish it from a mistake or an unreachable server (1).
const failedExit = 3

// exitError is an error with an exit status of its own.
type exitError struct {
	error
	status int
}

// await waits until all recipients of an activity are finished. The error says if some did not get the
// activity.
func (c status) await(ctx context.Context, api *client.Client) error {
	s, err := api.WaitUntilDone(ctx, c.id())
	if missed := s.Missed(); err == nil && missed > 0 {
		return exitError{fmt.Errorf("%s did not get %s", recipients(missed), s.ID), failedExit}
	}
	return err
}
