package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Discovery says who a server is in the Sipher network, and which healthy peers it knows.
type Discovery struct {
	URL string `json:"url"`
	SipherKeys
	Peers []Peer `json:"peers"`
}

// Peer is a server of the Sipher network.
type Peer struct {
	URL     string `json:"url"`
	Healthy bool   `json:"isHealthy"`
}

// Registration is a server's claim to be part of the Sipher network.
type Registration struct {
	Method string `json:"method"` // REGISTER
	URL    string `json:"url"`
	SipherKeys
}

// Registered is the answer to a Registration.
type Registered struct {
	Message string `json:"message"`
	Echo    struct {
		URL string `json:"url"`
		SipherKeys
	} `json:"echo"`
}

// Discovery returns who this fedpost is in the Sipher network; 404 if it takes no part.
func (c *Client) Discovery(ctx context.Context) (Discovery, error) {
	return get[Discovery](ctx, c, "/discover", nil)
}

// Register registers a server of the Sipher network with its origin and keys. fedpost asks the
// server for them before it answers.
func (c *Client) Register(ctx context.Context, url string, k SipherKeys) (Registered, error) {
	in := Registration{Method: "REGISTER", URL: url, SipherKeys: k}
	return send[Registered](ctx, c, request{method: http.MethodPost, path: "/discover", in: in, harmless: true})
}

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
