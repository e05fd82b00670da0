// Package operator serves the operators' routes of the HTTP API: servers, dead letters, keys, events,
// webhooks, statistics and the outbox; and finding, retrying and deleting accepted activities.
//
// It has the routes and the texts of refusals; operator/registry, deliver/deadletter, ledger/stats
// and the Sipher protocol do the work.
package operator

import (
	"errors"
	"net/http"

	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/api/problem"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
)

// route serves a pattern. An error of f that is no problem becomes one; see explain.
func route(pattern string, f func(*http.Request) (any, error)) api.Route {
	return api.Route{Pattern: pattern, Handler: api.Func(func(r *http.Request) (any, error) {
		v, err := f(r)
		if err != nil {
			return nil, explain(err)
		}
		return v, nil
	})}
}

// bare is f for requests that take no parameters.
func bare(f func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		if err := api.ReadQuery(r).Check(); err != nil {
			return nil, err
		}
		return f(r)
	}
}

// explain is the problem of an error of the packages that do the work.
func explain(err error) error {
	switch {
	case errors.Is(err, registry.ErrName):
		return problem.New(http.StatusBadRequest, "The server in the path is not usable: "+err.Error()+
			`. Give a host such as social.example, "*.social.example" to block its subdomains too, "inbox:" and the URL of an inbox, or a Sipher server's URL, percent-encoded whole.`).Because(err)
	case errors.Is(err, registry.ErrBadCursor):
		return api.BadCursor()
	case errors.Is(err, registry.ErrNoRecord):
		return problem.New(http.StatusNotFound, "There is no record of this server or inbox: it is healthy.").Because(err)
	case errors.Is(err, registry.ErrParked):
		return problem.Typed(http.StatusConflict, "deliveries-wait", "Deliveries wait",
			"Deliveries wait for the server, so its record is needed: GET /v1/servers/{host}/waiting lists them. To end them, block the server first.").Because(err)
	case errors.Is(err, circuit.ErrChanged):
		return problem.New(http.StatusConflict, "The record has just changed. Try again.").Because(err)
	case errors.Is(err, registry.ErrBlocked):
		return problem.New(http.StatusConflict, "The server is blocked: unblock it first.").Because(err)
	case errors.Is(err, registry.ErrNotApplicable):
		return problem.New(http.StatusConflict, "This is not possible for this kind of server: "+err.Error()+".").Because(err)
	case errors.Is(err, webhook.ErrNotFound):
		return problem.New(http.StatusNotFound, "There is no webhook of this id.")
	case errors.Is(err, webhook.ErrTooMany):
		return problem.New(http.StatusConflict, "There are 20 webhooks, which is the most. Delete one first.")
	}
	return api.RecordProblem(err)
}
