package main

import (
	"context"
	"io"
	"net/url"

	"fedpost/internal/api/contract"
)

// followsCommand lists follows of the Sipher protocol.
type followsCommand struct {
	remote
	Limit positive `help:"List at most this many." default:"100"`
}

// Run lists.
func (c followsCommand) Run(ctx context.Context, out io.Writer) error {
	return list(ctx, c.remote, out, "/v1/follows", url.Values{}, "follows", int(c.Limit), 1000, func(out io.Writer, all []contract.Follow) error {
		rows := make([][]string, len(all))
		for i, f := range all {
			state := "announced"
			switch {
			case f.Accepted:
				state = "accepted"
			case f.Acknowledged:
				state = "acknowledged"
			}
			rows[i] = []string{f.ID, state, f.FollowerID, f.FollowingID, f.FollowingServerURL, when(f.RecordedAt)}
		}
		return table(out, []string{"ID", "STATE", "FOLLOWER", "FOLLOWING", "SERVER", "RECORDED"}, rows)
	})
}
