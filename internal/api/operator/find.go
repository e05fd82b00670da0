package operator

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/api/contract"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
)

// Finder finds activities, and shows what has become of each.
type Finder interface {
	FindActivities(ctx context.Context, s ledger.Sought, cursor string, limit int) ([]ledger.Listed, string, error)
	View(ctx context.Context, id activity.ID, f ledger.RecipientFilter, cursor string, limit int) (ledger.View, error)
}

// FindRoutes is the route that lists activities. now is the clock that bounds how far back.
func FindRoutes(f Finder, now func() time.Time) []api.Route {
	h := findHandler{f, now}
	return []api.Route{route("GET /v1/activities", h.list)}
}

type findHandler struct {
	Finder
	now func() time.Time
}

// Bounds of a page of activities. Each entry costs the reads of all of its chunks, for
// its counts.
const (
	pageOfActivities = 20
	mostActivities   = 100
	viewsAtOnce      = 8
	longestSought    = 2048 // bytes of an id
)

func (h findHandler) list(w http.ResponseWriter, r *http.Request) error {
	q, err := api.ReadQuery(r, "activityId", "actor", "since", "state", "cursor", "limit")
	if err != nil {
		return err
	}
	s, err := h.sought(q)
	if err != nil {
		return err
	}
	state, err := api.Choice(q, "state", states...)
	if err != nil {
		return err
	}
	limit, err := api.Number(q, "limit", pageOfActivities, 1, mostActivities)
	if err != nil {
		return err
	}
	ls, next, err := h.FindActivities(r.Context(), s, q.Get("cursor"), limit)
	if errors.Is(err, ledger.ErrBadCursor) {
		return api.BadCursor()
	}
	if err != nil {
		return unreachable(err)
	}
	page := contract.Activities{NextCursor: next}
	if page.Activities, err = h.found(r.Context(), ls, state); err != nil {
		return unreachable(err)
	}
	return api.Answer(w, r, http.StatusOK, page)
}

// states are what the parameter state takes: the status of the activity, or a state that
// at least one of its recipients is in.
var states = append([]string{string(ledger.StatusDelivering), string(ledger.StatusDone)}, stateNames()...)

func stateNames() (all []string) {
	for _, s := range activity.States {
		all = append(all, string(s))
	}
	return all
}

func (h findHandler) sought(q url.Values) (s ledger.Sought, err error) {
	s.ActivityID, s.Sender = q.Get("activityId"), enqueue.SenderOf(q.Get("actor"))
	for name, value := range map[string]string{"activityId": s.ActivityID, "actor": q.Get("actor")} {
		if len(value) > longestSought {
			return s, api.BadParameter(name, "has %d bytes; the most is %d", len(value), longestSought)
		}
	}
	if s.Since, err = api.Instant(q, "since"); err != nil {
		return s, err
	}
	if oldest := h.now().Add(-ledger.LongestBack); !s.Since.IsZero() && s.Since.Before(oldest) {
		return s, api.BadParameter("since", "is too long ago: lists go back for %d days", int(ledger.LongestBack.Hours()/24))
	}
	return s, nil
}

// found looks the listed activities up. Those without a record any more, and those that
// are not in the state, are left out.
func (h findHandler) found(ctx context.Context, ls []ledger.Listed, state string) ([]contract.FoundActivity, error) {
	views := make([]*ledger.View, len(ls))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(viewsAtOnce)
	for i, l := range ls {
		g.Go(func() error {
			v, err := h.View(ctx, l.ID, ledger.RecipientFilter{}, "", 1)
			if errors.Is(err, ledger.ErrNotFound) {
				return nil
			}
			views[i] = &v
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := []contract.FoundActivity{}
	for i, l := range ls {
		v := views[i]
		if v == nil || state != "" && string(v.Status) != state && v.Counts[activity.State(state)] == 0 {
			continue
		}
		all = append(all, contract.FoundActivity{
			ID: string(l.ID), ActivityID: l.ActivityID, Actor: l.Actor, Type: l.Type, KeyID: l.KeyID, CreatedAt: l.CreatedAt,
			Status: string(v.Status), Counts: api.Counts(*v),
		})
	}
	return all, nil
}
