// Package operator serves the operators' routes of the HTTP API: servers, dead letters, keys,
// events, webhooks and statistics, and what is done with activities that were accepted: find,
// retry, forget.
//
// The package is separate from package api, which accepts activities, because it has other
// users: people with a terminal or a web page, not servers that submit activities. It has
// the routes and the texts of refusals; operator/registry, deliver/deadletter,
// ledger/stats and the Sipher protocol do the work.
package operator

import (
	"net/http"

	"fedpost/internal/api"
)

func route(pattern string, f func(http.ResponseWriter, *http.Request) error) api.Route {
	return api.Route{Pattern: pattern, Handler: api.Func(f)}
}
