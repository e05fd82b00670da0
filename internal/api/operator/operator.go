// Package operator serves the operators' routes of the HTTP API: servers, dead letters, keys, events,
// webhooks, statistics and the outbox; and finding, retrying and deleting accepted activities.
//
// It has the routes and the texts of refusals; operator/registry, deliver/deadletter, ledger/stats
// and the Sipher protocol do the work.
package operator

import (
	"errors"
	"net/http"
	"time"

	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/api/problem"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/keys"
	"fedpost/internal/ledger/events"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
)

// Services are what the routes work with.
type Services struct {
	Activities Finder
	Keys       *keys.Ring
	Forgetter  deadletter.Forgetter
	// DeadLetters lists and drops dead letters, Failed retries them and failed recipients.
	DeadLetters deadletter.Current
	Failed      deadletter.FailedRetrier
	Servers     *registry.Service
	Lots        Lots
	Queues      func(queue.Name) Queue
	Counts      stats.Store
	// Tally of this process, which is written before the counts are read.
	Tally    *stats.Tally
	Events   events.Feed
	Webhooks webhook.Registry
	// PlainHTTP allows webhooks without TLS.
	PlainHTTP bool
	Follows   Follows
	// Outbox is nil if the engine has none.
	Outbox Outbox
	Now    func() time.Time
}

// handlers are the functions of the routes.
type handlers struct {
	Services
	readers chan struct{} // those that wait for an event
	seen    *lastTrouble
}

func Routes(s Services) []api.Route {
	h := handlers{s, make(chan struct{}, mostWaiting), &lastTrouble{lock: make(chan struct{}, 1)}}
	return []api.Route{
		route("GET /v1/activities", h.listActivities),
		route("POST /v1/activities/cancel", h.cancelActivities),
		route("POST /v1/activities/{id}/retry", api.OfActivity(h.retryActivity)),
		route("DELETE /v1/activities/{id}", bare(api.OfActivity(h.forgetActivity))),
		route("GET /v1/dead-letters", h.listDead),
		route("POST /v1/dead-letters/retry", h.retryDead),
		route("DELETE /v1/dead-letters", h.dropDead),
		route("GET /v1/keys", h.listKeys),
		route("DELETE /v1/keys/{id}", h.deleteKey),
		route("GET /v1/servers", h.listServers),
		route("GET /v1/servers/{host}", named(h.getServer)),
		route("PUT /v1/servers/{host}", h.about(h.putServer)),
		route("DELETE /v1/servers/{host}", named(h.forgetServer)),
		route("GET /v1/servers/{host}/waiting", named(h.listWaiting)),
		route("POST /v1/servers/{host}/block", h.about(h.blockServer)),
		route("POST /v1/servers/{host}/unblock", h.about(plain(registry.Directory.Unblock))),
		route("POST /v1/servers/{host}/pause", h.about(h.pauseServer)),
		route("POST /v1/servers/{host}/resume", h.about(plain(registry.Directory.Resume))),
		route("POST /v1/servers/{host}/check", h.about(plain(registry.Directory.Check))),
		route("GET /v1/stats", h.showStats),
		route("GET /v1/stats/history", h.showHistory),
		route("GET /v1/events", h.listEvents),
		route("GET /v1/webhooks", bare(h.listWebhooks)),
		route("GET /v1/webhooks/{id}", bare(h.getWebhook)),
		route("PUT /v1/webhooks/{id}", h.putWebhook),
		route("DELETE /v1/webhooks/{id}", bare(h.deleteWebhook)),
		route("POST /v1/webhooks/{id}/test", h.testWebhook),
		route("GET /v1/follows", h.listFollows),
		route("GET /v1/outbox", h.ofOutbox(h.listRows)),
		route("POST /v1/outbox/retry", h.ofOutbox(h.retryRows)),
		route("DELETE /v1/outbox", h.ofOutbox(h.dropRows)),
	}
}

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
