package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// OutboxRow is a row of the table fedpost.outbox, without its request, which may be
// confidential and is large.
type OutboxRow struct {
	ID               string    `json:"id"`
	CreatedAt        time.Time `json:"createdAt"`
	State            string    `json:"state"` // waiting, accepted or refused
	DeduplicationKey string    `json:"deduplicationKey,omitempty"`
	// Tries is how often accepting the row has failed, if it has.
	Tries    int    `json:"tries,omitempty"`
	Activity string `json:"activity,omitempty"` // of an accepted row
	// Problem is what the API answers to the request of a refused row.
	Problem *Problem  `json:"problem,omitempty"`
	EndedAt time.Time `json:"endedAt,omitzero"` // when it was accepted or refused
}

// OutboxRows is a page of rows.
type OutboxRows struct {
	Rows       []OutboxRow `json:"rows"`
	NextCursor string      `json:"nextCursor,omitempty"`
}

// OutboxDepth is how much is in the outbox.
type OutboxDepth struct {
	Waiting int `json:"waiting"`
	Refused int `json:"refused"`
	Oldest  int `json:"oldestSeconds"` // age of the oldest row that waits; 0 if none does
}

// OutboxSelection selects rows that were refused: the one with the id, or all if that is
// empty, Limit of them at most (0: 1,000).
type OutboxSelection struct {
	ID    string `json:"id,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// Outbox lists the rows of a state (empty: all), the oldest first, limit of them at most (0:
// all). Only fedpost on PostgreSQL has an outbox.
func (c *Client) Outbox(ctx context.Context, state string, limit int) iter.Seq2[OutboxRow, error] {
	return pages[OutboxRow](ctx, c, "/v1/outbox", queryOf("state", state), "rows", limit, 1000)
}

// RetryOutbox lets rows that were refused wait again.
func (c *Client) RetryOutbox(ctx context.Context, s OutboxSelection) (Retried, error) {
	return send[Retried](ctx, c, request{method: http.MethodPost, path: "/v1/outbox/retry", in: s, harmless: true})
}

// DropOutbox removes rows that were refused.
func (c *Client) DropOutbox(ctx context.Context, s OutboxSelection) (Dropped, error) {
	query := queryOf("id", s.ID, "limit", numberOf(s.Limit))
	return send[Dropped](ctx, c, request{method: http.MethodDelete, path: "/v1/outbox", query: query})
}
