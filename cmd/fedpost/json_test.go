package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"fedpost/internal/testkit/openapi"
)

// unlike are the commands whose --json is not an answer of the API, and why.
var unlike = map[string]string{
	"bench":           "the report of a measurement",
	"check":           "the state of a data folder",
	"export":          "counts of what a file has, which no API may read",
	"import":          "counts of what was written past the API",
	"keys import":     "counts of what was stored, call by call",
	"webhooks delete": "the API answers without a body",
}

// withJSON are the commands that have a flag --json.
func withJSON(t *testing.T) []string {
	t.Helper()
	p, err := parser(&commands{}, screen{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, leaf := range p.Model.Leaves(false) {
		for _, level := range leaf.AllFlags(false) {
			for _, f := range level {
				if f.Name == "json" {
					all = append(all, strings.TrimPrefix(leaf.FullPath(), "fedpost "))
				}
			}
		}
	}
	return all
}

// TestEveryCommandPrintsJSONInTheShapesOfTheAPI, against a running server. A list is
// printed without its page.
func TestEveryCommandPrintsJSONInTheShapesOfTheAPI(tt *testing.T) {
	tt.Parallel()
	doc, err := openapi.Load("../../docs/openapi.yaml")
	if err != nil {
		tt.Fatal(err)
	}
	t := onServer(tt)
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/dies") {
			w.WriteHeader(http.StatusInternalServerError)
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer inbox.Close()
	checked := map[string]bool{}
	check := func(command, operation string, status int, field string, args ...string) string {
		tt.Helper()
		checked[command] = true
		out := t.run(append(append(strings.Fields(command), args...), "--json"))
		method, path, _ := strings.Cut(operation, " ")
		body := out
		if field != "" {
			var entries []json.RawMessage
			if err := json.Unmarshal([]byte(out), &entries); err != nil || len(entries) == 0 && command != "follows" {
				t.Errorf("%s: no entries, %v: %s", command, err, out)
			}
			body = `{"` + field + `":` + out + `}`
		}
		o := doc.Find(method, path)
		if o == nil {
			t.Fatalf("%s is not described", operation)
		}
		if err := o.CheckAnswer(status, "application/json", []byte(body)); err != nil {
			t.Errorf("%s: %v; it prints\n%s", command, err, out)
		}
		return out
	}

	key, other := keyID, "https://social.example/users/otto#main-key"
	check("keys generate", "POST /v1/keys", 201, "", key, "--type", "ed25519")
	check("keys show", "GET /v1/keys/x", 200, "", key)
	check("keys list", "GET /v1/keys", 200, "keys")
	check("keys rotate", "PUT /v1/keys/x", 201, "", key)
	private, err := newPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	check("keys put", "PUT /v1/keys/x", 201, "", other, t.file("key.pem", private))
	check("keys delete", "DELETE /v1/keys/x", 200, "", other)

	var sent struct{ ID string }
	if err := json.Unmarshal([]byte(check("send", "POST /v1/activities", 202, "", t.file("note.json", note), "--key", key, "--to", inbox.URL+"/dies", "--to", inbox.URL+"/refuses")), &sent); err != nil {
		t.Fatal(err)
	}
	t.until("done (1 dead, 1 failed)", "status", sent.ID)
	check("status", "GET /v1/activities/x", 200, "", sent.ID)
	check("activities list", "GET /v1/activities", 200, "activities")
	check("events", "GET /v1/events", 200, "")
	check("dead list", "GET /v1/dead-letters", 200, "deadLetters")
	check("stats", "GET /v1/stats", 200, "")
	check("health", "GET /healthz", 200, "")
	check("watch", "GET /v1/stats", 200, "", "--count", "1")
	check("follows", "GET /v1/follows", 200, "follows")
	check("retry", "POST /v1/activities/x/retry", 202, "", sent.ID)
	t.until("done (1 dead, 1 failed)", "status", sent.ID)
	check("dead retry", "POST /v1/dead-letters/retry", 202, "", "--activity", sent.ID)
	t.until("done (1 dead, 1 failed)", "status", sent.ID)
	check("dead drop", "DELETE /v1/dead-letters", 200, "", "--activity", sent.ID)

	late := t.run([]string{"send", t.file("note.json", note), "--key", key, "--to", inbox.URL, "--delay", "2d"})
	id, _, _ := strings.Cut(late, " ")
	check("cancel", "POST /v1/activities/x/cancel", 200, "", id)
	check("cancel", "POST /v1/activities/cancel", 200, "", "--since", "1h")

	check("servers block", "POST /v1/servers/x/block", 200, "", "bad.example")
	check("servers unblock", "POST /v1/servers/x/unblock", 200, "", "bad.example")
	check("servers pause", "POST /v1/servers/x/pause", 200, "", "a.example", "--for", "2d")
	check("servers check", "POST /v1/servers/x/check", 200, "", "a.example")
	check("servers limit", "PUT /v1/servers/x", 200, "", "a.example", "60")
	check("servers show", "GET /v1/servers/x", 200, "", "a.example")
	check("servers list", "GET /v1/servers", 200, "servers")
	check("servers resume", "POST /v1/servers/x/resume", 200, "", "a.example")
	pin := strings.Repeat("A", 43) + "="
	check("servers pin", "PUT /v1/servers/x", 200, "", "https://peer.example", "--public-key", pin, "--encryption-key", pin)

	check("webhooks put", "PUT /v1/webhooks/x", 200, "", "mine", inbox.URL)
	check("webhooks list", "GET /v1/webhooks", 200, "")
	check("webhooks test", "POST /v1/webhooks/x/test", 200, "", "mine")
	t.run([]string{"webhooks", "delete", "mine", "--json"}, `"deleted"`)

	// Only fedpost on PostgreSQL has an outbox.
	stand := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"GET": 200, "POST": 202, "DELETE": 200}[r.Method])
		_, _ = io.WriteString(w, map[string]string{
			"GET":  `{"rows":[{"id":"1","createdAt":"2026-11-21T08:00:00Z","state":"refused","problem":{"type":"about:blank","title":"Bad Request","status":400}}]}`,
			"POST": `{"retried":1,"more":false}`, "DELETE": `{"dropped":1,"more":false}`,
		}[r.Method])
	}))
	defer stand.Close()
	t.url = stand.URL
	check("outbox list", "GET /v1/outbox", 200, "rows")
	check("outbox retry", "POST /v1/outbox/retry", 202, "", "--all")
	check("outbox drop", "DELETE /v1/outbox", 200, "", "--id", "1")

	for _, command := range withJSON(tt) {
		if !checked[command] && unlike[command] == "" {
			t.Errorf("%s --json is not checked", command)
		}
	}
	for command := range checked {
		if !slices.Contains(withJSON(tt), command) {
			t.Errorf("%s has no --json", command)
		}
	}
}
