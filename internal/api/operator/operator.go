// Package operator serves the operators' routes of the HTTP API: servers, dead letters, keys, events,
// webhooks, statistics and the outbox; and finding, retrying and deleting accepted activities.
//
// It has the routes and the texts of refusals; operator/registry, deliver/deadletter, ledger/stats
// and the Sipher protocol do the work.
package operator

import (
	"net/http"

	"fedpost/internal/api"
)

func route(pattern string, f func(http.ResponseWriter, *http.Request) error) api.Route {
	return api.Route{Pattern: pattern, Handler: api.Func(f)}
}
