package main

import (
	"context"
	"io"
	"iter"
	"time"

	"fedpost/client"
)

type activitiesCommand struct {
	List activitiesList `cmd:"" help:"List activities, the newest first."`
}

type activitiesList struct {
	remote
	Actor      string   `help:"Only activities of this actor."`
	ActivityID string   `name:"activity-id" help:"Only activities whose own id this is."`
	State      string   `help:"Only activities in this state, or with a recipient in it, such as dead." enum:"delivering,done,${states}" default:""`
	Since      string   `help:"Only activities accepted since a time, such as 2026-11-21T08:00:00Z, or within a duration, such as 36h; at most 60d. Default: 7d."`
	Limit      positive `help:"List at most this many." default:"20"`
}

func (c activitiesList) Run(ctx context.Context, out io.Writer) error {
	since, err := sinceOf(c.Since, time.Now())
	if err != nil {
		return err
	}
	q := client.ActivityQuery{ActivityID: c.ActivityID, Actor: c.Actor, Since: since, State: c.State, Limit: int(c.Limit)}
	return list(ctx, c.remote, out, c.Limit, func(api *client.Client) iter.Seq2[client.FoundActivity, error] { return api.Activities(ctx, q) }, showActivities)
}

func showActivities(out io.Writer, all []client.FoundActivity) error {
	return table(out, []string{"ID", "ACCEPTED", "STATE", "TYPE", "RECIPIENTS", "ACTOR", "ACTIVITY"}, rowsOf(all, func(a client.FoundActivity) []string {
		return []string{a.ID, when(a.CreatedAt), a.Status, a.Type, counts(a.Counts), a.Actor, a.ActivityID}
	}))
}
