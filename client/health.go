package client

import (
	"context"
)

// Health is the answer to GET /healthz of a process that can write.
type Health struct {
	Status string `json:"status"` // ok
}

// Health reports whether fedpost serves and can write; a 503 says that it cannot.
func (c *Client) Health(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/healthz", nil)
}
