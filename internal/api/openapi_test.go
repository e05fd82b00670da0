package api_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedpost/internal/testkit/openapi"
)

// description is docs/openapi.yaml.
var description = sync.OnceValues(func() (*openapi.Document, error) { return openapi.Load("../../docs/openapi.yaml") })

func described(t testing.TB) *openapi.Document {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hold checks an exchange against the description. Every request of this
// package's tests comes through here, so every answer that they provoke is one
// that the description has.
func (w *world) hold(method, path, contentType, body string, res response) {
	w.Helper()
	op := described(w).Find(method, path)
	if op == nil {
		return // what is not described is a 404, or a test's own route
	}
	if err := op.CheckAnswer(res.Status, res.Header.Get("Content-Type"), []byte(res.Body)); err != nil {
		w.Error(err)
	}
	if res.Status >= 300 {
		return
	}
	if err := op.CheckRequest(contentType, []byte(body)); err != nil {
		w.Errorf("accepted, but not described so: %v", err)
	}
}

// elsewhere are routes below these paths that package operator serves; its tests hold
// them to the description.
var elsewhere = []string{"GET /v1/activities", "DELETE /v1/activities/{id}", "GET /v1/keys", "DELETE /v1/keys/{id}", "POST /v1/activities/{id}/retry", "POST /v1/activities/cancel"}

func TestEveryRouteIsDescribedAndEveryDescribedRouteServed(t *testing.T) {
	w := newWorld(t)
	var got []string
	for _, op := range described(t).Operations() {
		if strings.HasPrefix(op.Path, "/v1/activities") || strings.HasPrefix(op.Path, "/v1/keys") || op.Path == "/healthz" {
			got = append(got, op.String())
		}
	}
	want := append(w.api.Patterns(), elsewhere...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("described %q\nserved    %q", got, want)
	}
}

func TestEveryExampleIsRightAndAccepted(t *testing.T) {
	n := 0
	for _, op := range described(t).Operations() {
		if err := op.CheckExamples(); err != nil {
			t.Error(err)
		}
		examples, err := op.Examples()
		if err != nil {
			t.Fatal(err)
		}
		for name, body := range examples {
			if err := op.CheckRequest("application/json", body); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			w := newWorld(t).withKey()
			if !slices.Contains(w.api.Patterns(), op.String()) {
				continue
			}
			n++
			path := strings.ReplaceAll(op.Path, "{id}", url.PathEscape(keyID))
			if res := w.do(op.Method, path, string(body)); res.Status >= 300 {
				t.Errorf("%s: example %s is answered %d %s", op, name, res.Status, res.Body)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d examples only", n)
	}
}

func TestWhatIsDescribedAsOpenIsOpen(t *testing.T) {
	w := newWorld(t, token("secret secret secret"))
	for _, op := range described(t).Operations() {
		if !slices.Contains(w.api.Patterns(), op.String()) {
			continue
		}
		res := w.do(op.Method, strings.ReplaceAll(op.Path, "{id}", "x"), "")
		if open := res.Status != http.StatusUnauthorized; open != op.Public() {
			t.Errorf("%s: open %t, described as %t", op, open, op.Public())
		}
	}
}
