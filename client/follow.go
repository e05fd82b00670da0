package client

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// Follow is a follow that was announced to a Sipher server.
type Follow struct {
	ID                 string    `json:"id"`
	FollowerID         string    `json:"followerId"`
	FollowingID        string    `json:"followingId"`
	FollowerServerURL  string    `json:"followerServerUrl"`
	FollowingServerURL string    `json:"followingServerUrl,omitempty"`
	Accepted           bool      `json:"accepted"`
	Acknowledged       bool      `json:"acknowledged"`
	CreatedAt          string    `json:"createdAt,omitempty"` // as the payload has it
	RecordedAt         time.Time `json:"recordedAt"`
	UpdatedAt          time.Time `json:"updatedAt"`
}

// Follows is a page of follows.
type Follows struct {
	Follows    []Follow `json:"follows"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Follows lists the follows that were announced to Sipher servers, limit of them at most (0:
// all).
func (c *Client) Follows(ctx context.Context, limit int) iter.Seq2[Follow, error] {
	return pages[Follow](ctx, c, "/v1/follows", url.Values{}, "follows", limit, 1000)
}
