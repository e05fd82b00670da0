package main

import (
	"context"
	"io"
	"iter"

	"fedpost/client"
)

// followsCommand lists follows of the Sipher protocol.
type followsCommand struct {
	remote
	Limit positive `help:"List at most this many." default:"100"`
}

func (c followsCommand) Run(ctx context.Context, out io.Writer) error {
	entries := func(api *client.Client) iter.Seq2[client.Follow, error] { return api.Follows(ctx, int(c.Limit)) }
	return list(ctx, c.remote, out, c.Limit, entries, func(out io.Writer, all []client.Follow) error {
		return table(out, []string{"ID", "STATE", "FOLLOWER", "FOLLOWING", "SERVER", "RECORDED"}, rowsOf(all, func(f client.Follow) []string {
			state := "announced"
			switch {
			case f.Accepted:
				state = "accepted"
			case f.Acknowledged:
				state = "acknowledged"
			}
			return []string{f.ID, state, f.FollowerID, f.FollowingID, f.FollowingServerURL, when(f.RecordedAt)}
		}))
	})
}
