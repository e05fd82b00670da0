package functions

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/template"
)

// TestEachRoleAllowsWhatEventsWebhooksAndRetriesCall compares the calls of the other routes with the roles
// of the template, without a server.
func TestEachRoleAllowsWhatEventsWebhooksAndRetriesCall(t *testing.T) {
	t.Parallel()
	s := newSite(t, "KMS_KEY_ID", "alias/sealing")
	s.stop()
	resources := map[string]string{s.env["TABLE_NAME"]: "Table", path.Base(s.env["KMS_KEY_ID"]): "SealingKey"}
	for name, id := range logicalIDs {
		resources[path.Base(s.env["QUEUE_URL_"+strings.ToUpper(strings.ReplaceAll(string(name), "-", "_"))])] = id
	}
	endpoints := map[string]string{}
	for _, service := range services {
		endpoints[service] = s.aws.URL
	}
	recorders, env := map[string]*recorder{}, s.env
	for id := range functionsByID {
		recorders[id] = newRecorder(t, endpoints, resources)
	}
	// Each function asks its own recorder.
	for id, r := range recorders {
		s.env = maps.Clone(env)
		s.env["AWS_ENDPOINT_URL"] = r.URL
		s.function(id)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer receiver.Close()
	hook := receiver.URL
	do := func(method, path, body string, answer any) {
		t.Helper()
		var b []byte
		if body != "" {
			b = []byte(body)
		}
		if err := s.client.Do(t.Context(), method, path, b, answer); err != nil {
			t.Errorf("%s %s: %v", method, path, err)
		}
	}
	round := func() {
		for range 3 {
			s.check()
			s.work()
		}
	}
	do(http.MethodPut, "/v1/webhooks/app", `{"url":"`+hook+`"}`, nil)
	do(http.MethodPut, "/v1/webhooks/app", `{"url":"`+hook+`","rotateSecret":true}`, nil)
	// The answer waits for the deliver function to have sent the event.
	tested := make(chan struct{})
	go func() {
		defer close(tested)
		do(http.MethodPost, "/v1/webhooks/app/test", "", nil)
	}()
	for waiting := true; waiting; {
		select {
		case <-tested:
			waiting = false
		case <-time.After(10 * time.Millisecond):
			s.work()
		}
	}
	var ids []string
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer gone.Close()
	for _, one := range []client.Submission{
		submission(s.server.URL+"/inbox", gone.URL+"/inbox"), submission("http://127.0.0.1:1/inbox"),
	} {
		var body map[string]any
		text, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatal(err)
		}
		body["notify"] = true
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
		var a struct{ ID string }
		do(http.MethodPost, "/v1/activities", string(text), &a)
		ids = append(ids, a.ID)
	}
	round()
	var feed struct{ Events []struct{ Type string } }
	do(http.MethodGet, "/v1/events?limit=10", "", &feed)
	if len(feed.Events) < 2 {
		t.Errorf("the feed has %v, want one that is gone and one that is done", feed.Events)
	}
	do(http.MethodGet, "/v1/webhooks", "", nil)
	do(http.MethodGet, "/v1/activities?actor=https%3A%2F%2Fsocial.example%2Fusers%2Ffrida", "", nil)
	do(http.MethodGet, "/v1/activities/"+ids[0]+"?state=failed", "", nil)
	for _, id := range ids {
		_ = s.client.Do(t.Context(), http.MethodPost, "/v1/activities/"+id+"/retry", []byte(`{"states":["failed","dead"]}`), nil) // there may be none
	}
	round()
	for _, id := range ids {
		do(http.MethodDelete, "/v1/activities/"+id, "", nil)
	}
	do(http.MethodGet, "/v1/keys", "", nil)
	do(http.MethodDelete, "/v1/keys/"+url.PathEscape(keyID)+"?force=true", "", nil)
	do(http.MethodDelete, "/v1/dead-letters?host=a.example", "", nil)
	do(http.MethodDelete, "/v1/webhooks/app", "", nil)
	round()
	s.stop()

	tmpl, err := template.Load("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for id, r := range recorders {
		grants, err := tmpl.Grants(id)
		if err != nil {
			t.Fatal(err)
		}
		excused := map[string]string{}
		for _, g := range grants {
			excused[g.Action] = "another test uses it"
		}
		r.show(t, id)
		r.compare(t, tmpl, id, excused)
	}
}
