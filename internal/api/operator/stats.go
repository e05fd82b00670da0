package operator

import (
	"context"
	"errors"
	"net/http"

	"fedpost/internal/api"
	"fedpost/internal/api/contract"
	"fedpost/internal/protocol/sipher/follow"
)

// StatsRoutes are the routes of statistics.
func StatsRoutes(reporter *Reporter) []api.Route {
	return []api.Route{route("GET /v1/stats", func(w http.ResponseWriter, r *http.Request) error {
		q, err := api.ReadQuery(r, "days")
		if err != nil {
			return err
		}
		days, err := api.Number(q, "days", 1, 1, MostDays)
		if err != nil {
			return err
		}
		report, err := reporter.Report(r.Context(), days)
		if err != nil {
			return unreachable(err)
		}
		return api.Answer(w, r, http.StatusOK, report)
	})}
}

// Follows are the follows that were announced to Sipher servers.
type Follows interface {
	Follows(ctx context.Context, cursor string, limit int) (fs []follow.Follow, next string, err error)
}

// FollowRoutes are the routes of Sipher's follows.
func FollowRoutes(f Follows) []api.Route {
	return []api.Route{route("GET /v1/follows", func(w http.ResponseWriter, r *http.Request) error {
		q, err := api.ReadQuery(r, "cursor", "limit")
		if err != nil {
			return err
		}
		limit, err := api.PageSize(q)
		if err != nil {
			return err
		}
		fs, next, err := f.Follows(r.Context(), q.Get("cursor"), limit)
		if errors.Is(err, follow.ErrCursor) {
			return api.BadCursor()
		}
		if err != nil {
			return unreachable(err)
		}
		page := contract.Follows{Follows: make([]contract.Follow, len(fs)), NextCursor: next}
		for i, f := range fs {
			page.Follows[i] = contract.Follow(f)
		}
		return api.Answer(w, r, http.StatusOK, page)
	})}
}
