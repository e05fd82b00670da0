package operator

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/protocol/sipher/follow"
)

func StatsRoutes(reporter *Reporter) []api.Route {
	return []api.Route{route("GET /v1/stats", reporter.stats), route("GET /v1/stats/history", reporter.history)}
}

func (s *Reporter) stats(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "days", "waiting")
	days, count := q.Number("days", 1, 1, MostDays), q.Flag("waiting")
	if err := q.Check(); err != nil {
		return nil, err
	}
	report, err := s.Report(r.Context(), days)
	if err == nil && count {
		report.Waiting, err = s.waiting(r.Context())
	}
	return report, err
}

// period is the time that a history covers.
type period string

// periods are the steps of each period, for a chart.
var periods = map[period]struct {
	step  time.Duration
	steps int
}{"hour": {time.Minute, 60}, "day": {15 * time.Minute, 96}}

func (s *Reporter) history(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "period")
	of := periods[cmp.Or(api.Choice(q, "period", period("hour"), "day"), "hour")]
	if err := q.Check(); err != nil {
		return nil, err
	}
	h, ok := s.Tally.Series(of.step, of.steps)
	if !ok {
		return nil, problem.Typed(http.StatusNotFound, "no-history", "No history",
			"On AWS fedpost keeps no history. Use the CloudWatch dashboard with the name of the stack.")
	}
	return client.History{From: h.From, StepSeconds: int(h.Step.Seconds()), Since: h.Since, Counts: h.Counts}, nil
}

// Follows are the follows that were announced to Sipher servers.
type Follows interface {
	Follows(ctx context.Context, cursor string, limit int) (fs []follow.Follow, next string, err error)
}

func FollowRoutes(f Follows) []api.Route {
	return []api.Route{route("GET /v1/follows", func(r *http.Request) (any, error) {
		q, limit := api.ReadPage(r, api.UsualPage, api.MostPage)
		if err := q.Check(); err != nil {
			return nil, err
		}
		fs, next, err := f.Follows(r.Context(), q.Get("cursor"), limit)
		shown := api.Each(fs, func(f follow.Follow) client.Follow { return client.Follow(f) })
		return client.Follows{Follows: shown, NextCursor: next}, err
	})}
}
