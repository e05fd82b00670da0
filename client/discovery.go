package client

import (
	"context"
	"net/http"
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
