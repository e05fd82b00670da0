package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"fedpost/client"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/engine/outbox"
)

// Outbox is the table that applications insert requests into. Package operator imports no driver of
// PostgreSQL, as it also runs on Lambda.
type Outbox interface {
	List(ctx context.Context, state outbox.State, after int64, limit int) ([]outbox.Row, error)
	// Retry and Drop change the refused row id, or up to limit of all if id is 0, and return how
	// many they changed.
	Retry(ctx context.Context, id int64, limit int) (int, error)
	Drop(ctx context.Context, id int64, limit int) (int, error)
	Depth(ctx context.Context) (outbox.Depth, error)
}

// ofOutbox is f if there is an outbox.
func (h handlers) ofOutbox(f func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	if h.Outbox != nil {
		return f
	}
	return func(*http.Request) (any, error) {
		return nil, problem.Typed(http.StatusNotFound, "no-outbox", "No outbox", "Only fedpost on PostgreSQL (DATABASE_URL) has an outbox. Send with POST /v1/activities.")
	}
}

func (h handlers) listRows(r *http.Request) (any, error) {
	q, limit := api.ReadPage(r, api.UsualPage, api.MostPage, "state")
	state := api.Choice(q, "state", outbox.States...)
	after, ok := rowID(q.Get("cursor"))
	if err := q.Check(); err != nil {
		return nil, err
	}
	if !ok {
		return nil, api.BadCursor()
	}
	rows, err := h.Outbox.List(r.Context(), state, after, limit)
	if err != nil {
		return nil, err
	}
	page := client.OutboxRows{Rows: make([]client.OutboxRow, len(rows))}
	for i, row := range rows {
		if page.Rows[i], err = shownRow(row); err != nil {
			return nil, problem.Of(err)
		}
	}
	if len(rows) == limit {
		page.NextCursor = page.Rows[limit-1].ID
	}
	return page, nil
}

// mostKey is how much of a deduplication key is shown, in bytes.
const mostKey = 300

func shownRow(row outbox.Row) (client.OutboxRow, error) {
	s := client.OutboxRow{
		ID: strconv.FormatInt(row.ID, 10), CreatedAt: row.Created.UTC(), State: string(row.State), Tries: row.Tries, Activity: row.Activity,
	}
	if row.Key != nil {
		s.DeduplicationKey = outcome.Clean(*row.Key, mostKey)
	}
	if row.State != outbox.Waiting {
		s.EndedAt = row.Ended.UTC()
	}
	if row.Problem == "" {
		return s, nil
	}
	s.Problem = new(client.Problem)
	return s, json.Unmarshal([]byte(row.Problem), s.Problem)
}

// rowID reads the id of a row; 0 if s is empty.
func rowID(s string) (id int64, ok bool) {
	if s == "" {
		return 0, true
	}
	id, err := strconv.ParseInt(s, 10, 64)
	return id, err == nil && id > 0
}

const notARow = "is not the id of a row as GET /v1/outbox shows it"

func (h handlers) retryRows(r *http.Request) (any, error) {
	in := api.ReadInput(r)
	id, ok := rowID(in.Text("id"))
	if !ok {
		in.Fault("id", notARow)
	}
	limit := in.Number("limit", retryMost)
	if err := in.Check(); err != nil {
		return nil, err
	}
	limit = cmp.Or(limit, retryDefault)
	n, err := h.Outbox.Retry(r.Context(), id, limit)
	return api.Reply{Status: http.StatusAccepted, Body: client.Retried{Retried: n, More: n == limit && id == 0}}, err
}

func (h handlers) dropRows(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "id", "limit")
	limit := q.Number("limit", retryDefault, 1, retryMost)
	id, ok := rowID(q.Get("id"))
	if !ok {
		q.Fault("id", notARow)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	n, err := h.Outbox.Drop(r.Context(), id, limit)
	return client.Dropped{Dropped: n, More: n == limit && id == 0}, err
}
