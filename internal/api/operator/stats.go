package operator

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/protocol/sipher/follow"
)

// StatsRoutes are the routes of statistics.
func StatsRoutes(reporter *Reporter) []api.Route {
	return []api.Route{route("GET /v1/stats", func(w http.ResponseWriter, r *http.Request) error {
		q, err := api.ReadQuery(r, "days", "waiting")
		if err != nil {
			return err
		}
		days, err := api.Number(q, "days", 1, 1, MostDays)
		if err != nil {
			return err
		}
		count, err := api.Choice(q, "waiting", "true", "false")
		if err != nil {
			return err
		}
		report, err := reporter.Report(r.Context(), days)
		if err == nil && count == "true" {
			report.Waiting, err = reporter.waiting(r.Context())
		}
		if err != nil {
			return api.Unreachable(err)
		}
		return api.Answer(w, r, http.StatusOK, report)
	}), route("GET /v1/stats/history", reporter.history)}
}

// period is the time that a history covers.
type period string

// periods are the steps of each period, for a chart.
var periods = map[period]struct {
	step  time.Duration
	steps int
}{"hour": {time.Minute, 60}, "day": {15 * time.Minute, 96}}

func (s *Reporter) history(w http.ResponseWriter, r *http.Request) error {
	q, err := api.ReadQuery(r, "period")
	if err != nil {
		return err
	}
	p, err := api.Choice(q, "period", period("hour"), "day")
	if err != nil {
		return err
	}
	of := periods[cmp.Or(p, "hour")]
	h, ok := s.Tally.Series(of.step, of.steps)
	if !ok {
		return problem.Typed(http.StatusNotFound, "no-history", "No history",
			"On AWS fedpost keeps no history. Use the CloudWatch dashboard with the name of the stack.")
	}
	return api.Answer(w, r, http.StatusOK, client.History{
		From: h.From, StepSeconds: int(h.Step.Seconds()), Since: h.Since, Counts: h.Counts,
	})
}

// Follows are the follows that were announced to Sipher servers.
type Follows interface {
	Follows(ctx context.Context, cursor string, limit int) (fs []follow.Follow, next string, err error)
}

// FollowRoutes are the routes of Sipher's follows.
func FollowRoutes(f Follows) []api.Route {
	return []api.Route{route("GET /v1/follows", func(w http.ResponseWriter, r *http.Request) error {
		q, limit, err := api.ReadPage(r, api.UsualPage, api.MostPage)
		if err != nil {
			return err
		}
		fs, next, err := f.Follows(r.Context(), q.Get("cursor"), limit)
		if errors.Is(err, follow.ErrCursor) {
			return api.BadCursor()
		}
		if err != nil {
			return api.Unreachable(err)
		}
		page := client.Follows{Follows: make([]client.Follow, len(fs)), NextCursor: next}
		for i, f := range fs {
			page.Follows[i] = client.Follow(f)
		}
		return api.Answer(w, r, http.StatusOK, page)
	})}
}
