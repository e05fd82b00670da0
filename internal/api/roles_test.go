package api_test

import (
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/api"
	"fedpost/internal/api/problem"
)

// Each role opens its routes, and only those: until somebody decides otherwise, a new route is for
// operators and, if it is a GET, for readers.
func TestEachTokenOpensTheRoutesOfItsRole(t *testing.T) {
	tokens := api.Tokens{Send: "the token of a server", App: "the token of an application", Read: "the token of Prometheus", Operate: "the token of an operator"}
	served := func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(204); return nil }
	away := func(http.ResponseWriter, *http.Request) error {
		return problem.New(http.StatusServiceUnavailable, "away")
	}
	w := newWorld(t, func(o *api.Options) { o.Tokens = tokens },
		extra("GET /v1/private", false, served), extra("POST /v1/private/{host}/block", false, served),
		extra("DELETE /v1/activities/{id}/private", false, served), extra("GET /v1/activitiesother", false, served),
		extra("GET /v1/events", false, away), extra("DELETE /v1/keys/{id}", false, away))
	for _, c := range []struct {
		method, path             string
		send, app, read, operate bool
	}{
		{"POST", "/v1/activities", true, true, false, true},
		{"POST", "/v1/activities/batch", true, true, false, true},
		{"GET", "/v1/activities/x", true, true, true, true},
		{"HEAD", "/v1/activities/x", true, true, true, true},
		{"POST", "/v1/activities/x/cancel", true, true, false, true},
		{"DELETE", "/v1/activities/x/private", true, true, false, true},
		{"GET", "/v1/activitiesother", false, false, true, true},
		{"GET", "/v1/private", false, false, true, true},
		{"POST", "/v1/private/x/block", false, false, false, true},
		{"GET", "/v1/events", false, true, true, true},
		{"GET", "/v1/keys/x", false, true, true, true},
		{"POST", "/v1/keys", false, true, false, true},
		{"DELETE", "/v1/keys/x", false, true, false, true},
		{"PUT", "/v1/keys/x", false, true, false, true},
		// Any valid token may learn that there is no such route.
		{"GET", "/nowhere", true, true, true, true},
		{"POST", "/v1/activities/../keys", false, true, false, true},
		{"POST", "/v1/activities/%2e%2e/keys", true, true, true, true},
		{"PATCH", "/v1/keys/x", true, true, true, true},
	} {
		for _, by := range []struct {
			token string
			opens bool
		}{{tokens.Send, c.send}, {tokens.App, c.app}, {tokens.Read, c.read}, {tokens.Operate, c.operate}} {
			res := w.do(c.method, c.path, "", "Authorization", "Bearer "+by.token)
			if by.opens && (res.Status == http.StatusForbidden || res.Status == http.StatusUnauthorized) {
				t.Errorf("%s %s with %s: %d, want it opened", c.method, c.path, by.token, res.Status)
			}
			if !by.opens && res.Status != http.StatusForbidden {
				t.Errorf("%s %s with %s: %d, want 403", c.method, c.path, by.token, res.Status)
			}
			if !by.opens && !strings.Contains(res.Header.Get("WWW-Authenticate"), "insufficient_scope") {
				t.Errorf("%s %s with %s: WWW-Authenticate is %q", c.method, c.path, by.token, res.Header.Get("WWW-Authenticate"))
			}
		}
	}
}

// A role without a token opens nothing: an empty Bearer token is invalid.
func TestARoleWithoutATokenOpensNothing(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Tokens = api.Tokens{Operate: "the token of an operator"} })
	for _, given := range []string{"", "Bearer", "Bearer "} {
		if res := w.do("GET", "/v1/keys/x", "", "Authorization", given); res.Status != http.StatusUnauthorized {
			t.Errorf("%q: %d", given, res.Status)
		}
	}
}
