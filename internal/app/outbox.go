package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/app/config"
	"fedpost/internal/engine/outbox"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger/events"
)

const (
	// rowsAtOnce is how many rows of a batch are accepted at once.
	rowsAtOnce = 16
	// rowTries is how often a row that fails by a fault of fedpost is tried. Then it is refused, so
	// that it does not block the rows after it.
	rowTries = 10
)

// Outbox returns a function that accepts rows of the outbox. A row waits while its deduplication
// key cannot be checked, whatever DEDUPLICATION_FALLBACK says, because it is read again after a
// crash. Rows with the same ordering key or the same deduplication key are accepted one after
// the other.
func Outbox(c config.Enqueue, p Ports) (outbox.Accept, error) {
	c.Deduplication.Fallback = string(dedup.Closed)
	a, err := API(c, config.Access{}, p)
	if err != nil {
		return nil, err
	}
	s := p.store()
	return func(ctx context.Context, rows []outbox.Row) []outbox.Verdict {
		verdicts := make([]outbox.Verdict, len(rows))
		var g errgroup.Group
		g.SetLimit(rowsAtOnce)
		for _, group := range byOrder(rows) {
			g.Go(func() error {
				for _, i := range group {
					verdicts[i] = verdictOf(ctx, a, s, rows[i], p.Log)
					if v := verdicts[i]; v.Activity == "" && v.Problem == "" {
						break // later rows of the group wait for it
					}
				}
				return nil
			})
		}
		_ = g.Wait() // a row's failure is its verdict
		return verdicts
	}, nil
}

// byOrder groups the indexes of rows that are accepted one after the other.
func byOrder(rows []outbox.Row) (groups [][]int) {
	known := map[string]int{}
	for i, r := range rows {
		var request struct {
			OrderingKey      string `json:"orderingKey"`
			DeduplicationKey string `json:"deduplicationKey"`
		}
		// An unreadable request has no order: it is refused.
		_ = json.Unmarshal([]byte(r.Request), &request)
		if r.Key != nil {
			request.DeduplicationKey = *r.Key
		}
		order := "deduplication " + request.DeduplicationKey
		if request.OrderingKey != "" {
			order = "ordering " + request.OrderingKey
		}
		n, ok := known[order]
		if !ok || request.OrderingKey == "" && request.DeduplicationKey == "" {
			n = len(groups)
			groups = append(groups, nil)
			known[order] = n
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

type recorder interface {
	AppendEnds(ctx context.Context, ends []events.End) error
}

func verdictOf(ctx context.Context, a *api.API, feed recorder, row outbox.Row, log *slog.Logger) outbox.Verdict {
	res, err := a.AcceptRow(ctx, row)
	if err == nil {
		return outbox.Verdict{Activity: string(res.ID)}
	}
	p := problem.Of(err)
	switch ours := p.Status == http.StatusInternalServerError; {
	case ours && row.Tries+1 < rowTries:
		log.ErrorContext(ctx, "a row of the outbox cannot be accepted", "row", row.ID, "tries", row.Tries+1, "error", err)
		return outbox.Verdict{Tried: true}
	case !ours && p.Status > http.StatusInternalServerError, p.Status == http.StatusConflict, ctx.Err() != nil:
		log.WarnContext(ctx, "a row of the outbox waits", "row", row.ID, "error", err)
		return outbox.Verdict{}
	}
	document, err := json.Marshal(p.Problem)
	if err == nil {
		err = feed.AppendEnds(ctx, []events.End{events.OfRow(row.ID, p.Detail, row.Created)})
	}
	if err != nil {
		log.WarnContext(ctx, "the event of a refused row of the outbox cannot be written; the row is tried again", "row", row.ID, "error", err)
		return outbox.Verdict{}
	}
	log.InfoContext(ctx, "a row of the outbox is refused", "row", row.ID, "status", p.Status, "problem", p.Type)
	return outbox.Verdict{Problem: string(document), Tried: true}
}
