package operator

import (
	"errors"
	"net/http"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/ledger"
)

func ActivityRoutes(r deadletter.Retrier, f deadletter.Forgetter, now func() time.Time) []api.Route {
	h := retryHandler{r, now}
	return []api.Route{
		route("POST /v1/activities/{id}/retry", api.OfActivity(h.retry)),
		route("DELETE /v1/activities/{id}", bare(api.OfActivity(func(r *http.Request, id activity.ID) (any, error) {
			return nil, f.Forget(r.Context(), id)
		}))),
	}
}

type retryHandler struct {
	retrier deadletter.Retrier
	now     func() time.Time
}

const mostInboxes = 1000

func (h retryHandler) retry(r *http.Request, id activity.ID) (any, error) {
	in := api.ReadInput(r)
	choice, cursor := chosen(in), in.Text("cursor")
	if err := in.Check(); err != nil {
		return nil, err
	}
	done, err := h.retrier.Retry(r.Context(), id, choice, cursor, h.now().Add(retryTime))
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, err
	case errors.Is(err, deadletter.ErrBadCursor):
		in.Fault("cursor", "is not the nextCursor of an earlier answer")
		return nil, in.Check()
	case errors.Is(err, deadletter.ErrCancelled):
		return nil, over("The activity was cancelled, so its recipients cannot be retried. Send it again.", err)
	case errors.Is(err, deadletter.ErrExpired):
		return nil, over("The activity has expired (expiresIn), so its recipients cannot be retried. Send it again.", err)
	case err != nil:
		return nil, problem.New(http.StatusServiceUnavailable,
			"Not all could be retried. Try again: no recipient is retried twice.").Because(err).After(api.RetryAfter)
	}
	return api.Reply{Status: http.StatusAccepted, Body: client.RetriedActivity{
		ID: string(id), Retried: done.Sent, Unavailable: done.Unavailable, NextCursor: done.Next,
	}}, nil
}

func over(detail string, err error) error {
	return problem.Typed(http.StatusConflict, "activity-over", "Activity over", detail).Because(err)
}

// chosen reads which recipients to retry.
func chosen(in *api.Object) deadletter.Choice {
	var c deadletter.Choice
	states := in.Texts("states", 2)
	for i, s := range states {
		switch activity.State(s) {
		case activity.Failed:
			c.Failed = true
		case activity.Dead:
			c.Dead = true
		default:
			in.FaultAt("states", i, "is %q; it is one of failed and dead", s)
		}
	}
	if states == nil {
		c.Failed, c.Dead = true, true
	}
	inboxes := in.Texts("inboxes", mostInboxes)
	if inboxes == nil {
		return c
	}
	c.Inboxes = make(map[string]bool, len(inboxes))
	for i, inbox := range inboxes {
		one, err := activity.CanonicalURL(inbox)
		if err != nil {
			in.FaultAt("inboxes", i, "%v", err)
		}
		c.Inboxes[one] = true
	}
	return c
}
